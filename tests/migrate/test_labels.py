"""Labels: what they are kept by, and what compilers say that they read."""

from pathlib import Path

import pytest

from fa3_matrix.migrate import labels
from fa3_matrix.migrate.labels import Compilers, Kept, Label
from fa3_matrix.migrate.prove import Unit
from fa3_matrix.migrate.scan.tree import Tree
from fa3_matrix.toolkits import ToolkitRoot


def test_a_rule_for_make_names_the_files_of_the_tree(tmp_path: Path) -> None:
    rule = (
        f"unit.o: {tmp_path}/a.cu \\\n  ./b.h {tmp_path}/x/../c\\ d.h \\\n /usr/include/stdio.h\n"
    )
    assert labels.depends_on(rule, tmp_path) == {"a.cu", "b.h", "c d.h"}


def test_labels_are_kept_until_something_that_they_depend_on_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "tree"
    (root / "inc").mkdir(parents=True)
    (root / "inc/old.h").write_text("#pragma once\n")
    (root / "broken.cu").write_text('#include "old.h"\n')
    broken = Label(True, "", (), frozenset({"broken.cu", "inc/old.h"}))
    compiled: list[str] = []

    def label(unit: Unit, root: Path, compilers: Compilers) -> Label:  # noqa: ARG001
        compiled.append(unit.file)
        return broken

    monkeypatch.setattr(labels, "label", label)
    here = ToolkitRoot("12.4", tmp_path, "system")
    unit = Unit("broken.cu", ("-Iinc",), cuda=True)

    def ask() -> Label:
        tree = Tree(root, frozenset({"broken.cu", "inc/old.h"}))
        return Kept(tmp_path / "labels", tree, Compilers(here, here)).label(unit)

    assert ask() == ask() == broken
    assert len(compiled) == 1
    (root / "inc/old.h").write_text("// nothing\n")
    assert ask() == broken
    assert len(compiled) == 2
