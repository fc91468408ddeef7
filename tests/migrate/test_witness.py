"""Witnesses: what they say, and what the compilers say of them."""

import dataclasses
import shutil
from pathlib import Path

import pytest

from fa3_matrix.errors import ToolkitError
from fa3_matrix.migrate import remedies
from fa3_matrix.migrate.compute import compute
from fa3_matrix.migrate.difference import Difference
from fa3_matrix.migrate.model import Model
from fa3_matrix.migrate.rules import Proof
from fa3_matrix.migrate.store import kept
from fa3_matrix.migrate.witness import (
    Disagreement,
    Toolkit,
    compile_unit,
    disagreements,
    not_proved_again,
    prove,
    proved,
)
from fa3_matrix.migrate.witness_units import Unit, Witness, units
from fa3_matrix.toolkits import find

from .small_toolkits import Toolkits

KEY = ("FN-REMOVED", "cudaGone")


def test_a_line_belongs_to_the_witness_that_stands_there() -> None:
    unit = Unit(
        "u", "g++", "one\ntwo\n", (Witness("a", None), Witness("b\nb", KEY), Witness("c", None))
    )
    assert unit.source == "one\ntwo\na\nb\nb\nc\n"
    assert unit.refused([3]) == {0}
    assert unit.refused([4, 5]) == {1}
    assert unit.refused([6, 1]) == {2, -1}


def test_only_the_new_toolkit_may_refuse_and_only_what_changed() -> None:
    unit = Unit("u", "g++", "", (Witness("kept", None), Witness("gone", KEY)))
    old, new = Toolkit("12.4", Path("/")), Toolkit("13.3", Path("/"))
    assert not [*disagreements(unit, old, frozenset(), new=False)]
    assert not [*disagreements(unit, new, frozenset({1}), new=True)]
    assert [*disagreements(unit, old, frozenset({1}), new=False)] == [
        Disagreement("u", "gone", "12.4", "refuses it")
    ]
    assert [*disagreements(unit, new, frozenset({0}), new=True)] == [
        Disagreement("u", "kept", "13.3", "refuses it"),
        Disagreement("u", "gone", "13.3", "takes it"),
    ]


def test_every_break_of_a_header_has_a_witness(
    difference: Difference, old: Model, new: Model
) -> None:
    made = units(difference, old, new)
    witnessed = {line.change for unit in made for line in unit.witnesses if line.change}
    rules = ("FN-REMOVED", "FN-SUFFIX", "FN-SIG", "FIELD-REMOVED", "TYPE-REMOVED", "ENUM-REMOVED")
    rules += ("HDR-REMOVED", "HDR-MOVED", "MACRO-REMOVED", "ARCH-REMOVED", "INCLUDE-TRANSITIVE")
    expected = {
        (row.rule, row.name)
        for row in difference.changes
        if row.rule in rules and row.proof is not Proof.DOCUMENTATION
    }
    # Aside of what other people's headers are needed for, and of warp intrinsics, which are declared still.
    assert {name for _, name in expected - witnessed} <= {*old.function} & {*new.function}


def test_nothing_is_said_of_headers_that_are_not_at_hand(
    difference: Difference, old: Model, new: Model
) -> None:
    made = units(difference, old, new, frozenset({"nvrtc.h"}))
    assert not any("<nvrtc.h>" in line.text for unit in made for line in unit.witnesses)


def test_the_shipped_difference_is_proved(difference: Difference) -> None:
    names = ("FN-REMOVED", "FN-SUFFIX", "FN-SIG", "FIELD-REMOVED", "TYPE-REMOVED", "ENUM-REMOVED")
    names += ("HDR-REMOVED", "HDR-MOVED", "MACRO-REMOVED", "ARCH-REMOVED", "INCLUDE-TRANSITIVE")
    unproved = [
        row.name for row in difference.changes if row.rule in names and row.proof is Proof.HEADERS
    ]
    assert unproved == []


EDIT = ("cuda.h", "CU_KIND_A = 1, ", "")


def small(toolkit: Toolkits, folder: Path) -> tuple[Difference, Unit, Toolkit, Toolkit]:
    """Two toolkits, copied into ``folder``, that differ by an enum constant, and the unit that shows it."""
    difference = compute(toolkit(), toolkit(edit=EDIT))
    made = units(difference, toolkit(), toolkit(edit=EDIT))
    (unit,) = [unit for unit in made if unit.name == "interface"]
    roots = [
        Toolkit(name, Path(shutil.copytree(root, folder / name)))
        for name, root in (("old", toolkit.root()), ("new", toolkit.root(edit=EDIT)))
    ]
    return difference, dataclasses.replace(unit, command="g++"), roots[0], roots[1]


def test_a_small_toolkit_is_proved_by_gcc(toolkit: Toolkits, tmp_path: Path) -> None:
    difference, unit, old, new = small(toolkit, tmp_path)
    proven = prove([unit], old, new, folder=tmp_path / "kept", say=len)
    assert proven.disagreements == ()
    assert proven.changes == {("ENUM-REMOVED", "CU_KIND_A")}
    assert {row.proof for row in proved(difference, proven.changes).changes} == {Proof.WITNESS}
    # A second run compiles nothing, and so needs no toolkit.
    for one in (old, new):
        shutil.rmtree(one.root)
    assert prove([unit], old, new, folder=tmp_path / "kept", say=len) == proven


def test_computing_again_keeps_what_was_proved_of_the_same_changes(toolkit: Toolkits) -> None:
    computed = compute(toolkit(), toolkit(edit=EDIT))
    recorded = proved(computed, frozenset({("ENUM-REMOVED", "CU_KIND_A")}))
    assert kept(computed, recorded) == recorded != computed
    # Other values of the same name are another fact, which nothing has proved.
    other = dataclasses.replace(
        computed, changes=tuple(dataclasses.replace(row, old="2") for row in computed.changes)
    )
    assert kept(other, recorded) == other


def test_the_shipped_levels_outlast_a_difference_that_is_computed_again(
    difference: Difference,
) -> None:
    forgotten = dataclasses.replace(
        difference,
        changes=tuple(
            dataclasses.replace(row, proof=Proof.HEADERS) if row.proof is Proof.WITNESS else row
            for row in difference.changes
        ),
    )
    assert kept(forgotten, difference) == difference


def test_headers_that_are_not_at_hand_lower_no_level(
    difference: Difference, old: Model, new: Model
) -> None:
    absent = frozenset({"nvrtc.h"})
    assert not_proved_again(difference, absent) == ["nvrtcGetNVVM", "nvrtcGetNVVMSize"]
    assert not_proved_again(difference, frozenset()) == []
    # A run that proves nothing of them leaves the rows as they are.
    confirmed = frozenset(
        line.change
        for unit in units(difference, old, new, absent)
        for line in unit.witnesses
        if line.change
    )
    assert not any(name.startswith("nvrtc") for _, name in confirmed)
    assert proved(difference, confirmed) == difference


def test_a_wrong_difference_is_contradicted(toolkit: Toolkits, tmp_path: Path) -> None:
    _, unit, old, new = small(toolkit, tmp_path)
    # The other way round: the old one refuses.
    proven = prove([unit], new, old, folder=tmp_path / "kept", say=len)
    assert {one.said for one in proven.disagreements} == {"refuses it", "takes it"}
    assert proven.changes == frozenset()


def test_a_head_that_does_not_compile_is_no_proof(tmp_path: Path) -> None:
    unit = Unit("u", "g++", "#include <no_such_header.h>\n", (Witness("int x;", KEY),))
    with pytest.raises(ToolkitError, match="refuses the head of u"):
        compile_unit(unit, Toolkit("1.0", tmp_path))


@pytest.fixture(scope="module")
def toolkits() -> tuple[Toolkit, Toolkit]:
    try:
        roots = [
            Toolkit(version, find(version, provision=False).root) for version in ("12.4", "13.3")
        ]
    except ToolkitError as error:
        pytest.skip(f"needs both toolkits: {error}")
    return roots[0], roots[1]


@pytest.mark.toolkit
@pytest.mark.parametrize("name", ["aliases", "moved headers", "deprecated", "sm_70", "interface"])
def test_both_compilers_agree(
    toolkits: tuple[Toolkit, Toolkit],
    difference: Difference,
    old: Model,
    new: Model,
    tmp_path: Path,
    name: str,
) -> None:
    absent = toolkits[0].absent(old.headers) | toolkits[1].absent(new.headers)
    made = [unit for unit in units(difference, old, new, absent) if unit.name == name]
    proven = prove(made, *toolkits, folder=tmp_path, say=len)
    assert proven.disagreements == ()
    assert proven.changes


@pytest.mark.toolkit
def test_both_toolkits_take_the_remedies(
    toolkits: tuple[Toolkit, Toolkit], difference: Difference
) -> None:
    lines = []
    for row in difference.changes:
        form = row.remedy.both if row.remedy else None
        driver = row.rule in ("FN-REMOVED", "FN-SIG", "FIELD-REMOVED", "ENUM-REMOVED")
        if (
            form
            and driver
            and not row.where.startswith("nvrtc")
            and not row.name.startswith("__")
            and row.proof is not Proof.DOCUMENTATION
        ):
            body = remedies.PREAMBLE.replace("\n", " ") + form
            lines.append(f"void remedy_{len(lines)}() {{ {body}; }}")
    assert len(lines) > 20
    head = "#include <cuda.h>\n#include <cuda_runtime.h>\nstruct nvrtcProgram {};\n"
    unit = Unit("remedies", "nvcc", head, tuple(Witness(line, None) for line in lines))
    for toolkit in toolkits:
        refused = compile_unit(unit, toolkit)
        assert [lines[index] for index in refused] == []
