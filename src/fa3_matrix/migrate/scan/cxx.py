"""C, C++, CUDA and PTX: files are lexed, their guards evaluated, and what holds names of the difference is parsed."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from fa3_matrix.migrate.difference import Change, Difference
from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.rules import State
from fa3_matrix.migrate.scan import includes, kernels, literals, macros, members, names
from fa3_matrix.migrate.scan.declarations import Declarations
from fa3_matrix.migrate.scan.expressions import Place
from fa3_matrix.migrate.scan.facts import Facts, facts_of
from fa3_matrix.migrate.scan.guards import Definition
from fa3_matrix.migrate.scan.hosts import Hosts
from fa3_matrix.migrate.scan.index import Index, index_of
from fa3_matrix.migrate.scan.lexing import pieces
from fa3_matrix.migrate.scan.members import Member
from fa3_matrix.migrate.scan.reach import LIBRARY_GUARDS, Reach, at_include, reads_before
from fa3_matrix.migrate.scan.syntax import Syntax
from fa3_matrix.migrate.scan.tree import HEADER_SUFFIXES, SOURCE_SUFFIXES, Tree
from fa3_matrix.migrate.scan.unit import Unit, unit_of
from fa3_matrix.migrate.scan.walk import read_text

SUFFIXES = (*SOURCE_SUFFIXES, *HEADER_SUFFIXES)
_TEMPLATES = (".in", ".jinja", ".j2", ".tmpl")  # of the suffixes above: config.h.in
_PTX = ".ptx"
_HEAD, _TAIL = b"void f(){", b";}"


def accepts(path: str, head: bytes) -> bool:  # noqa: ARG001  (every scanner is asked alike)
    """By name: C, C++ and CUDA, headers, templates of them, and PTX."""
    for suffix in _TEMPLATES:
        path = path.removesuffix(suffix)
    return path.endswith((*SUFFIXES, _PTX))


def find(file: str, text: str, difference: Difference) -> Iterator[Finding]:
    """All there is to say of one file that stands alone."""
    index = index_of(difference)
    yield from settle([analyse(file, text, index)], index)


@dataclass
class Analysis:
    """What one file came to; ``members`` and ``facts`` are settled with those of other files.

    ``partial``: why a part of the file was left out, or None.
    """

    file: str
    findings: list[Finding] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)
    cuda: bool = False
    partial: str | None = None


def analyse(
    file: str,
    text: str,
    index: Index,
    tree: Tree | None = None,
    given: frozenset[str] = frozenset(),
) -> Analysis:
    """Everything about a file that can be told from it and from the headers that it includes.

    Args:
        file: relative name; text: contents; index: of the difference; tree: for its headers, or None.
        given: macros that are defined before it.
    """
    analysis = Analysis(file)
    if file.endswith(_PTX):
        analysis.findings += literals.find_ptx(file, text, index)
        return analysis
    unit = unit_of(file, text, index, tree, given)
    scan = _Scan(unit, analysis, tree)
    analysis.findings += includes.find(unit, tree.local(file) if tree else frozenset())
    analysis.findings += literals.find(unit)
    analysis.findings += kernels.find(unit, partial(_defines, file, tree))
    scan.run()
    outside = (
        tree.outside(file) if tree else frozenset(i.header for i in includes.includes_of(unit))
    )
    analysis.findings += scan.lost_names(outside)
    analysis.cuda = _concerns_cuda(unit, outside, tree)
    return analysis


def settle(
    analyses: Sequence[Analysis], index: Index, tree: Tree | None = None
) -> Iterator[Finding]:
    """Findings of all files, with what files tell of each other.

    That is types of fields, names that headers declare anew, what the sources that read a header include, and
    in which builds a header is read at all.
    """
    settled = _settled(analyses, index, tree)
    if tree is None:
        yield from settled
        return
    narrowed = list(map(Reach(tree, index).narrowed, settled))
    yield from Hosts(tree, index).settled(narrowed)
    for analysis in analyses:
        yield from _after_libraries(analysis, index, tree)


def _after_libraries(analysis: Analysis, index: Index, tree: Tree) -> Iterator[Finding]:
    """What a header holds for sources that read a library's header ahead of it: told where they include it."""
    header = analysis.file
    latent = {f.name for f in analysis.findings if f.state is State.LATENT}
    if not latent or not header.endswith(HEADER_SUFFIXES):
        return
    text = read_text(tree.root / header)
    for guard, library in LIBRARY_GUARDS.items():
        sources = [u for u in tree.units(header) if reads_before(tree, u, library, header)]
        if guard not in text or not sources:
            continue
        given = analyse(header, text, index, tree, frozenset((guard,)))
        for finding in given.findings:
            if finding.state is State.ACTIVE and finding.name in latent:
                for source in sources:
                    yield from at_include(finding, source, library, tree, index)


def _settled(analyses: Sequence[Analysis], index: Index, tree: Tree | None) -> Iterator[Finding]:
    facts = Facts.merged(analysis.facts for analysis in analyses)
    by_file = {analysis.file: analysis for analysis in analyses}
    for analysis in analyses:
        for finding in analysis.findings:
            kept: Finding | None = finding
            if tree is not None and finding.name in facts.declared:
                reached = (by_file.get(other) for other in tree.reached(analysis.file))
                if any(other and finding.name in other.facts.declared for other in reached):
                    continue  # a header of the tree means something else by the name
            if tree is not None and finding.rule == "INCLUDE-TRANSITIVE":
                kept = _lost_in_units(finding, index, tree)
            if kept:
                yield kept
        for member in analysis.members:
            word = member.finding.name.rpartition("::")[2]
            found = members.settle(
                member,
                facts.types(member.type),
                cuda=analysis.cuda,
                rivals=bool(facts.owners.get(word, set()) - {member.record}),
            )
            if found:
                yield found


def _lost_in_units(finding: Finding, index: Index, tree: Tree) -> Finding | None:
    """Of a header: whether the sources that read it bring the name in by what else they include."""
    units = tree.units(finding.file)
    changes = index.names.get(finding.name.rpartition("::")[2], ())
    change = next(c for c in changes if c.name == finding.name and c.rule == finding.rule)
    lost = [unit for unit in units if includes.lost(change, tree.outside(unit))]
    if units and not lost:
        return None
    return replace(finding, confidence="high") if units and len(lost) == len(units) else finding


def _defines(file: str, tree: Tree | None, name: str) -> bool:
    """Whether a header that ``file`` reaches defines function ``name``."""
    if tree is None:
        return False
    pattern = kernels.definition_of(name)
    return any(pattern.search(data) for data in tree.texts(tree.reached(file)))


def _concerns_cuda(unit: Unit, outside: frozenset[str], tree: Tree | None) -> bool:
    if unit.by_nvcc or any("cuda" in header for header in outside):
        return True
    if any(word.startswith(("cudaDeviceProp", "cudaGetDevice")) for word in unit.words):
        return True
    return tree is not None and any(tree.header(f).cuda for f in tree.reached(unit.file))


class _Scan:
    """The names of the difference in one file."""

    def __init__(self, unit: Unit, analysis: Analysis, tree: Tree | None) -> None:
        self.unit = unit
        self.analysis = analysis
        self._tree = tree
        self.definitions: dict[str, Definition] = {
            definition.name: definition
            for definition, branch in unit.guards.definitions
            if branch.state is not None
        }
        # Names that decide at the uses of a macro: of calls with the arguments that the use gives.
        self.deferred: dict[str, set[str]] = defaultdict(set)
        # First use of each name that headers used to bring in.
        self.used: dict[str, tuple[Change, names.Use]] = {}
        self.changes: Mapping[str, tuple[Change, ...]] = {
            word: unit.index.names[word] for word in unit.words & unit.index.names.keys()
        }
        self._done: set[tuple[int, str]] = set()

    def run(self) -> None:
        """Fill the analysis."""
        bodies, hits = self._hits()
        for definition, offsets in bodies.items():
            self._body(self._definition_at(definition), offsets)
        for name in self.deferred:
            hits += [
                (offset, name) for offset in macros.uses(self.unit.code, self.definitions[name])
            ]
        records = [(o, w) for o, w in self._found(self.unit.index.records & self.unit.words)]
        self._code(sorted({hit for hit in hits if self.unit.in_directive(hit[0]) is None}), records)

    def _found(self, words: Iterable[str]) -> Iterator[tuple[int, str]]:
        alternatives = "|".join(sorted(words, key=len, reverse=True))
        if not alternatives:
            return
        pattern = re.compile(rb"(?<![A-Za-z0-9_])(?:%b)(?![A-Za-z0-9_])" % alternatives.encode())
        for match in pattern.finditer(self.unit.code):
            yield match.start(), match[0].decode("ascii")

    def _hits(self) -> tuple[dict[int, list[tuple[int, str]]], list[tuple[int, str]]]:
        """Those in bodies of macros, by the start of their directive, and those in code."""
        bodies: dict[int, list[tuple[int, str]]] = defaultdict(list)
        hits: list[tuple[int, str]] = []
        for offset, word in self._found(self.changes):
            directive = self.unit.in_directive(offset)
            if directive is None:
                hits.append((offset, word))
            elif directive.word == "define":
                bodies[directive.start].append((offset, word))
        return bodies, hits

    def _definition_at(self, start: int) -> Definition | None:
        found = (d for d, branch in self.unit.guards.definitions if d.start == start)
        return next(found, None)

    def _body(self, definition: Definition | None, hits: list[tuple[int, str]]) -> None:
        """Names in the body of a macro: judged there, unless its uses decide."""
        if definition is None or self.unit.guards.at(definition.start).state is None:
            return
        if definition.name in self.changes:
            self.analysis.facts.declared.add(definition.name)
        data = _HEAD + definition.body.encode("ascii") + _TAIL
        syntax = Syntax(data, definition.body_start - len(_HEAD))
        declarations = Declarations(syntax)
        forwards = macros.is_forwarding(definition)
        used = forwards and next(macros.uses(self.unit.code, definition), None) is not None
        for offset, word in hits:
            if offset < definition.body_start or word in (definition.parameters or ()):
                continue
            use = names.use_at(word, offset, Place(declarations, syntax.path(offset)))
            variable = use.call is None or "__VA_ARGS__" in syntax.text(use.call)
            if (
                used
                and variable
                and any(c.rule in ("FN-SIG", "CCCL-SIG") for c in self.changes[word])
            ):
                self.deferred[definition.name].add(word)
            else:
                self._judge(word, use)

    def _code(self, hits: list[tuple[int, str]], records: list[tuple[int, str]]) -> None:
        offsets = [offset for offset, _ in (*hits, *records)]
        for number, (view, branches) in enumerate(self.unit.guards.views(offsets)):
            shown = [hit for hit in hits if self.unit.guards.at(hit[0]) in branches]
            shown = [hit for hit in shown if hit not in self._done]
            self._done.update(shown)
            for start, end in pieces(view):
                syntax = Syntax(view[start:end], start)
                if not syntax.complete:
                    self.analysis.partial = "is no C++ from some line on: the rest was left out"
                declarations = Declarations(syntax)
                if number == 0:
                    facts_of(declarations, self.unit, self.analysis.facts)
                for offset, word in shown:
                    if start <= offset < end:
                        self._hit(offset, word, Place(declarations, syntax.path(offset)))

    def _hit(self, offset: int, word: str, place: Place) -> None:
        """A name in code: judged there, or in what the macro that takes it makes of it."""
        macro = self._passed_to(place)
        if word in self.deferred:
            self._expansion(self.definitions[word], offset, self.deferred[word], place)
        elif macro is not None:
            self._expansion(*macro, {word}, place)
        else:
            self._judge(word, names.use_at(word, offset, place))

    def _passed_to(self, place: Place) -> tuple[Definition, int] | None:
        """The macro that calls or pastes its argument at ``place``, and where its use begins."""
        path = place.path
        if len(path) > 1 and path[-2].child_by_field_name("function") == path[-1]:
            path = path[:-1]  # of ``PASTED(f(x))``: the call is the argument
        if len(path) < 3 or path[-2].type != "argument_list":
            return None
        function = path[-3].child_by_field_name("function")
        definition = self._macro(place.syntax.text(function)) if function is not None else None
        if definition is None or not macros.calls_through(definition):
            return None
        return definition, place.syntax.span(path[-3])[0]

    def _macro(self, name: str) -> Definition | None:
        """Of this file, or of a header that it reads."""
        own = self.definitions.get(name)
        if own is None and self._tree is not None:
            return self._tree.definition(self.unit.file, name)
        return own

    def _expansion(self, definition: Definition, start: int, words: set[str], outer: Place) -> None:
        used = macros.invocation_at(self.unit.code, definition, start)
        text = macros.expanded(used, self.definitions) if used else None
        if used is None or text is None:
            return
        syntax = Syntax(_HEAD + text.encode("ascii") + _TAIL)
        declarations = Declarations(syntax)
        for match in re.finditer(r"[A-Za-z_]\w*", text):
            if match[0] in words:
                place = Place(declarations, syntax.path(match.start() + len(_HEAD)), outer)
                use = names.use_at(match[0], match.start() + len(_HEAD), place)
                self._judge(match[0], names.inside(use, (used.start, used.end)))

    def _judge(self, word: str, use: names.Use) -> None:
        for change in self.changes.get(word, ()):
            if self._has_own(change):
                continue
            if change.kind == "field":
                member = members.find(self.unit, change, use)
                if member:
                    self.analysis.members.append(member)
            elif change.rule == "INCLUDE-TRANSITIVE":
                if names.meant(change, use):
                    self.used.setdefault(change.name, (change, use))
            else:
                found = names.find(self.unit, change, use)
                if found:
                    self.analysis.findings.append(found)

    def _has_own(self, change: Change) -> bool:
        """Whether the tree has its own copy of the library of CCCL that the change is of."""
        if self._tree is None or not change.kind.startswith("cccl"):
            return False
        return self._tree.resolve(self.unit.file, change.where) is not None

    def lost_names(self, outside: frozenset[str]) -> Iterator[Finding]:
        """One finding for each name whose header no longer comes with what the file includes."""
        added: set[str] = set()
        for change, use in self.used.values():
            sure = includes.lost(change, outside)
            if sure is None:
                continue
            edits = includes.added(self.unit, change)
            found = self.unit.finding(
                change,
                use.shown,
                f"What is included here no longer brings in {change.name}.",
                confidence="medium" if self.unit.is_header else sure,
                edits=tuple(edit for edit in edits if edit.text not in added),
            )
            if found:
                added.update(edit.text for edit in found.edits)
                yield found
