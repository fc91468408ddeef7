"""What both toolkits' compilers say of the translation units of a tree: broken, clean, or nothing.

Labels are kept, since compiling takes its time.
"""

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fa3_matrix import _json
from fa3_matrix.migrate.prove import (
    UNIT_SUFFIXES,
    Compiled,
    Diagnostic,
    Unit,
    compile_unit,
    guessed,
    is_harmless,
)
from fa3_matrix.migrate.scan.tree import Tree
from fa3_matrix.toolkits import ToolkitRoot

# What a project may ask nvcc for, that makes it take more and refuse nothing; and all errors, not the first hundred.
_NVCC_OPTIONS = (
    *("--extended-lambda", "--expt-relaxed-constexpr", "-rdc=true", "-w"),
    *("-Xcudafe", "--error_limit=100000"),
)
_SECONDS = 60


@dataclass(frozen=True)
class Label:
    """What compiling says of a unit.

    Args:
        broken: None: it has no label, for ``reason``.
        errors: of the new toolkit.
        reads: files of the tree that the old toolkit's compiler read for it, itself among them.
    """

    broken: bool | None
    reason: str = ""
    errors: tuple[Diagnostic, ...] = ()
    reads: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Compilers:
    """Both toolkits, and folders of headers that they lack (libraries' that are shipped apart)."""

    old: ToolkitRoot
    new: ToolkitRoot
    old_includes: tuple[Path, ...] = ()
    new_includes: tuple[Path, ...] = ()


def units_of(tree: Tree, files: Iterable[str], compilers: Compilers) -> list[Unit]:
    """CUDA sources, and those of C and C++ that include a header of the old toolkit."""
    folders = (compilers.old.include, *compilers.old_includes)
    found = []
    for file in sorted(files):
        if not file.endswith(UNIT_SUFFIXES):
            continue
        unit = guessed(file, tree, compilers.old)
        if unit.cuda:
            unit = dataclasses.replace(unit, options=(*unit.options, *_NVCC_OPTIONS))
        elif not any((f / header).is_file() for header in tree.outside(file) for f in folders):
            continue
        found.append(unit)
    return found


def label(unit: Unit, root: Path, compilers: Compilers) -> Label:
    """Compile a unit by both toolkits."""
    if not is_harmless([str(root / unit.file)]):
        return Label(None, "its name means something to a shell")
    with TemporaryDirectory(prefix="fa3-evaluate-") as folder:
        depends = Path(folder) / "depends"
        options = ("-MD", "-MF", str(depends))
        before = _compiled(unit, root, compilers.old, compilers.old_includes, options)
        if not before.succeeded:
            return Label(None, _why(before))
        reads = depends_on(depends.read_text(errors="replace"), root)
    after = _compiled(unit, root, compilers.new, compilers.new_includes, ())
    if after.trouble:
        return Label(None, _why(after))
    errors = tuple(dict.fromkeys(d for d in after.diagnostics if d.error))
    if not after.succeeded and not errors:
        return Label(None, "the new toolkit failed without an error message")
    return Label(not after.succeeded, "", errors, reads | {unit.file})


def _compiled(
    unit: Unit,
    root: Path,
    toolkit: ToolkitRoot,
    includes: Sequence[Path],
    options: Sequence[str],
) -> Compiled:
    folders = [word for folder in includes for word in ("-isystem", str(folder.resolve()))]
    unit = dataclasses.replace(unit, options=(*unit.options, *folders, *options))
    return compile_unit(unit, root, toolkit, seconds=_SECONDS)


_MISSING = re.compile(
    r"(?:fatal error: |cannot open source file \")([^\s:\"]+)(?:: No such file|\")"
)


def _why(compiled: Compiled) -> str:
    if compiled.trouble:
        return f"too slow: {compiled.trouble}"
    missing = _MISSING.search(compiled.first_error)
    if missing:
        return f"missing header: {missing[1]}"
    return f"the old toolkit refuses it: {compiled.first_error}"


def depends_on(rule: str, root: Path) -> frozenset[str]:
    """Files of the tree in a rule for make, as compilers write it."""
    words = re.split(r"(?<!\\)\s+", rule.replace("\\\n", " ").partition(":")[2])
    paths = ((root / word.replace("\\ ", " ")).resolve() for word in words if word)
    return frozenset(p.relative_to(root).as_posix() for p in paths if p.is_relative_to(root))


class Kept:
    """Labels on disk, by what they depend on: the unit's text, the texts it reaches, its options, the toolkits."""

    def __init__(self, folder: Path, tree: Tree, compilers: Compilers) -> None:
        self._folder = folder
        self._tree = tree
        self._compilers = compilers

    def label(self, unit: Unit) -> Label:
        """The kept one, or a new one that is kept."""
        path = self._folder / f"{self._key(unit)}.json"
        if path.exists():
            return _label_of(_json.read(path))
        made = label(unit, self._tree.root, self._compilers)
        row = dataclasses.asdict(made) | {"reads": sorted(made.reads)}
        _json.write_atomic(path, {"unit": unit.file, **row})
        return made

    def _key(self, unit: Unit) -> str:
        compilers = self._compilers
        asked = hashlib.sha256(repr((unit, compilers, _SECONDS)).encode())
        reached = frozenset({unit.file, *self._tree.reached(unit.file)})
        for text in self._tree.texts(reached):
            asked.update(hashlib.sha256(text).digest())
        return asked.hexdigest()[:32]


def _label_of(row: dict[str, Any]) -> Label:
    errors = tuple(
        Diagnostic(error["error"], error["text"], tuple((f, n) for f, n in error["places"]))
        for error in row["errors"]
    )
    return Label(row["broken"], row["reason"], errors, frozenset(row["reads"]))
