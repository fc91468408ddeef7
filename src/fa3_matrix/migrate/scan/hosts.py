"""Headers of CCCL that a host compiler no longer finds, though nvcc does: for the sources that the host compiler reads.

A host compiler stops at the first one that is missing. That one is told, once, whether the source includes it itself or
through headers of its tree; a folder to search mends all.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from fa3_matrix.migrate.difference import Change
from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.rules import Severity, State
from fa3_matrix.migrate.scan.guards import Branch, Conditions, Directive, Guards, directives
from fa3_matrix.migrate.scan.index import Index
from fa3_matrix.migrate.scan.lexing import lex
from fa3_matrix.migrate.scan.preprocessor import Macro, Truth
from fa3_matrix.migrate.scan.source import Source
from fa3_matrix.migrate.scan.tree import INCLUDED, SOURCE_SUFFIXES, Tree
from fa3_matrix.migrate.scan.unit import CUDA_SUFFIXES, conditions_of, is_device_code
from fa3_matrix.migrate.scan.walk import read_text

RULE = "HDR-MOVED"
# What nvcc alone defines.
_OF_NVCC = (
    *("__CUDACC__", "__NVCC__", "__CUDA_ARCH__"),
    *("__CUDACC_VER_MAJOR__", "__CUDACC_VER_MINOR__"),
)
_BUILD_FILES = re.compile(
    r"(?:^|/)(?:CMakeLists\.txt|[^/]+\.cmake(?:\.in)?|[Mm]akefile[^/]*|GNUmakefile|[^/]+\.mk|setup\.py|meson\.build"
    r"|BUILD(?:\.bazel)?|[^/]+\.bzl)$"
)
_ADDS_CCCL = re.compile(
    rb"include/cccl\b|\b(?:CCCL::CCCL|CCCL::\w+|Thrust::Thrust|CUB::CUB|libcudacxx::libcudacxx)\b"
    rb"|\bfind_package\s*\(\s*CCCL\b|\bthrust_create_target\b|\brapids_cpm_(?:cccl|thrust|libcudacxx)\b"
)
_NAMED = 3


@dataclass(frozen=True, order=True)
class _Place:
    """The directive number ``position`` of ``file``, which includes ``header``."""

    file: str
    position: int
    header: str


class Hosts:
    """The sources of ``tree`` that a host compiler reads."""

    def __init__(self, tree: Tree, index: Index) -> None:
        self._tree = tree
        self._index = index
        self._moved = tuple(
            (prefix, change) for prefix, change in index.prefixes if change.rule == RULE
        )

    def settled(self, findings: Sequence[Finding]) -> Iterator[Finding]:
        """``findings``, and the breaks in headers of the tree that sources read."""
        if not any(finding.rule == RULE for finding in findings):
            yield from findings
            return
        readers: dict[tuple[_Place, State], list[str]] = defaultdict(list)
        elsewhere: set[str] = set()
        for source in sorted(self._tree.files):
            first = self._first(source)
            if first is not None and first[0].file != source:
                readers[first].append(source)
                if first[1] is State.ACTIVE:
                    elsewhere.add(source)
        found = [
            self._finding(place, state, names) for (place, state), names in sorted(readers.items())
        ]
        told = {(finding.file, finding.line) for finding in found}
        for finding in (*findings, *found):
            if finding.rule != RULE:
                yield finding
            elif finding.severity is Severity.INFO:
                if (finding.file, finding.line) not in told:
                    yield finding
            elif finding.file not in elsewhere:
                yield self._weighed(finding)

    def _weighed(self, finding: Finding) -> Finding:
        """No surer than that no build file names CCCL."""
        if finding.state is not State.ACTIVE or not self._build_adds_it:
            return finding
        message = f"{finding.message} A build file of this tree seems to add it."
        return replace(finding, state=State.LATENT, message=message)

    @cached_property
    def _build_adds_it(self) -> bool:
        """Whether a build file names CCCL's folder or its targets."""
        chosen = frozenset(file for file in self._tree.files if _BUILD_FILES.search(file))
        return any(_ADDS_CCCL.search(text) for text in self._tree.texts(chosen))

    def _first(self, source: str) -> tuple[_Place, State] | None:
        """The first header that is missing for ``source``, and how surely it is read."""
        host = source.endswith(SOURCE_SUFFIXES) and not source.endswith(CUDA_SUFFIXES)
        if not host or not any(map(self._change, self._tree.outside(source))):
            return None
        if is_device_code(lex(self._text(source)).code):
            return None
        conditions = conditions_of(self._index.difference, {})
        for environment in (conditions.new, conditions.old):
            for name in _OF_NVCC:
                environment.macros[name] = Macro("0", defined=Truth.FALSE)
        found: dict[State, _Place] = {}
        self._read(source, None, conditions, found, set())
        state = next((s for s in (State.ACTIVE, State.LATENT) if s in found), None)
        return (found[state], state) if state is not None else None

    def _read(
        self,
        file: str,
        around: Branch | None,
        conditions: Conditions,
        found: dict[State, _Place],
        seen: set[tuple[str, Truth]],
    ) -> None:
        """What ``file`` includes, in order; ends where a missing header surely stops the compiler."""
        code = self._tree.directives_of(file)
        positions = {directive.start: n for n, directive in enumerate(directives(code))}

        def included(directive: Directive, branch: Branch) -> None:
            match = INCLUDED.match(directive.rest)
            if match is None or branch.state is None or State.ACTIVE in found:
                return
            header = match[2].strip()
            target = self._tree.resolve(file, header)
            if target is None:
                if self._change(header):
                    place = _Place(file, positions[directive.start], header)
                    found.setdefault(branch.state, place)
            elif (target, branch.new) not in seen:
                seen.add((target, branch.new))
                self._read(target, branch, conditions, found, seen)

        Guards(code, conditions, included, around)

    def _text(self, file: str) -> str:
        return read_text(self._tree.root / file)

    def _change(self, header: str) -> Change | None:
        return next((c for prefix, c in self._moved if header.startswith(prefix)), None)

    def _finding(self, place: _Place, state: State, sources: Sequence[str]) -> Finding:
        text = self._text(place.file)
        directive = list(directives(lex(text).code))[place.position]
        match = INCLUDED.match(text, directive.rest_start, directive.end)
        change = self._change(place.header)
        assert match is not None
        assert change is not None
        source = Source(place.file, text, self._index.difference)
        more = len(sources) - _NAMED
        readers = ", ".join(sources[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        return source.finding(
            RULE,
            match.span(2),
            change.name,
            f"{place.header} is in include/cccl of CUDA {self._index.difference.new}: a host compiler needs -I for it. "
            f"It is read by {readers}, which nvcc does not compile.",
            change=change,
            state=state,
            confidence="medium",
        )
