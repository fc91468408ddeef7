"""In which builds the headers of a tree are read: by the conditions around the ``#include`` of them."""

from collections.abc import Iterator
from dataclasses import replace

from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.rules import Severity, State
from fa3_matrix.migrate.scan.includes import include_of
from fa3_matrix.migrate.scan.index import Index
from fa3_matrix.migrate.scan.tree import HEADER_SUFFIXES, SOURCE_SUFFIXES, Tree
from fa3_matrix.migrate.scan.unit import unit_of
from fa3_matrix.migrate.scan.walk import read_text

# By these macros headers ask whether one of a library was read before them; and how its headers' names begin.
LIBRARY_GUARDS = {
    "_CUFFT_H_": "cufft",
    "CUBLAS_API_H_": "cublas",
    "CURAND_H_": "curand",
    "CUSPARSEAPI": "cusparse",
    "CUSOLVER_COMMON_H_": "cusolver",
    "NV_NPPIDEFS_H": "npp",
}
_SUREST_FIRST = (State.ACTIVE, State.LATENT, State.INACTIVE)


class Reach:
    """How surely a build reads a header of ``tree``; nothing is read until a finding asks."""

    def __init__(self, tree: Tree, index: Index) -> None:
        self._tree = tree
        self._index = index
        self._states: dict[str, State] = {}
        self._includes: dict[str, dict[str, State]] = {}

    def narrowed(self, finding: Finding) -> Finding:
        """The finding, no surer than that a build reads its file."""
        weighs = finding.state is not State.INACTIVE and finding.severity is not Severity.INFO
        if not weighs or not finding.file.endswith(HEADER_SUFFIXES):
            return finding
        state = _weaker(finding.state, self.state(finding.file))
        edits = () if state is State.INACTIVE else finding.edits
        return replace(finding, state=state, edits=edits)

    def state(self, file: str) -> State:
        """Of what stands in ``file`` without a condition: of the surest way from a file that nobody includes."""
        if file not in self._states:
            ways = (least for least in _SUREST_FIRST if self._is_reached(file, least))
            # Headers that include each other, and that nobody else does.
            self._states[file] = next(ways, State.ACTIVE)
        return self._states[file]

    def _is_reached(self, file: str, least: State) -> bool:
        """Whether a source, or a header that is there for others, reads ``file`` at least so surely."""
        seen: set[str] = set()
        todo: list[tuple[str, str | None]] = [(file, None)]
        while todo:
            current, header = todo.pop()
            if current in seen or (header and not self._reads(current, header, least)):
                continue
            seen.add(current)
            is_header = current.endswith(HEADER_SUFFIXES)
            includers = self._tree.includers(current) if is_header else ()
            if not includers:
                return True
            # Sources last, so that they are looked at first: there a way ends.
            ordered = sorted(includers, key=lambda name: name.endswith(SOURCE_SUFFIXES))
            todo += [(includer, current) for includer in ordered]
        return False

    def _reads(self, file: str, header: str, least: State) -> bool:
        """Whether an ``#include`` of ``header`` in ``file`` is as sure as ``least``."""
        if file not in self._includes:
            self._includes[file] = self._read(file)
        return _weaker(least, self._includes[file].get(header, State.ACTIVE)) is least

    def _read(self, file: str) -> dict[str, State]:
        """The headers of the tree that ``file`` includes."""
        text = read_text(self._tree.root / file)
        unit = unit_of(file, text, self._index, self._tree)
        found: dict[str, State] = {}
        for directive in unit.guards.directives:
            include = include_of(text, directive) if directive.word == "include" else None
            target = self._tree.resolve(file, include.header) if include else None
            if target is not None:
                # Another vendor's build reads what this one never does: that is not migrated yet.
                state = unit.guards.at(directive.start).state or State.LATENT
                found[target] = min(state, found.get(target, state), key=_SUREST_FIRST.index)
        return found


def _weaker(first: State, second: State) -> State:
    return max(first, second, key=_SUREST_FIRST.index)


def reads_before(tree: Tree, source: str, library: str, header: str) -> bool:
    """Whether ``source`` reads a header of ``library`` ahead of ``header``, each file's includes in order."""
    return next((name != header for name in _order(tree, source, library, header, set())), False)


def _order(tree: Tree, file: str, library: str, header: str, seen: set[str]) -> Iterator[str]:
    """``header``, and headers of ``library``, as they are read."""
    for name in tree.header(file).includes:
        target = tree.resolve(file, name)
        if target == header or (target is None and name.startswith(library)):
            yield target or name
        elif target is not None and target not in seen:
            seen.add(target)
            yield from _order(tree, target, library, header, seen)


def at_include(
    finding: Finding, source: str, library: str, tree: Tree, index: Index
) -> Iterator[Finding]:
    """The finding, told of ``source``: at the include through which it reads the file that holds it."""
    text = read_text(tree.root / source)
    unit = unit_of(source, text, index, tree)
    for directive in unit.guards.directives:
        include = include_of(text, directive) if directive.word == "include" else None
        target = tree.resolve(source, include.header) if include else None
        state = unit.guards.at(directive.start).state
        if include and target and state and finding.file in (target, *tree.reached(target)):
            line, column = unit.source.position(include.span[0])
            yield replace(
                finding,
                state=state,
                file=source,
                line=line,
                column=column,
                construct=include.header,
                message=f"{finding.message} {finding.file}, line {finding.line}, has it for sources that "
                f"read {library}'s header before, as this one does.",
                edits=(),
            )
            return
