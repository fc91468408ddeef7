"""Which lines of a file the compiler of a toolkit sees: its ``#if`` chains, evaluated for both toolkits."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from fa3_matrix.migrate.rules import State
from fa3_matrix.migrate.scan.lexing import blank
from fa3_matrix.migrate.scan.preprocessor import Environment, Macro, Truth

DIRECTIVE = re.compile(
    rb"^[ \t\f\v]*(?:\#|%:)[ \t]*(?P<word>[a-z_]*)(?P<rest>(?:\\\r?\n|[^\n])*)", re.MULTILINE
)
_FIRST = ("if", "ifdef", "ifndef")
_FURTHER = ("elif", "elifdef", "elifndef")
CONDITIONS = frozenset((*_FIRST, *_FURTHER))
_DEFINITION = re.compile(r"\s*([A-Za-z_]\w*)(?:\(([^()]*)\))?(.*)", re.DOTALL)
_NAME = re.compile(r"\s*([A-Za-z_]\w*)")
_CONTINUATION = re.compile(r"\\\r?\n")


@dataclass(frozen=True)
class Directive:
    """``start``, ``end``: offsets, continuation lines included; ``rest``: what follows its name, at ``rest_start``."""

    word: str
    rest: str
    start: int
    rest_start: int
    end: int


@dataclass(frozen=True)
class Definition:
    """A ``#define``. ``parameters``: None: object-like; ``body_start``: offset of the body."""

    name: str
    parameters: tuple[str, ...] | None
    body: str
    start: int
    body_start: int
    end: int


@dataclass(frozen=True, eq=False)
class Branch:
    """What stands between two directives of a chain.

    Args:
        parent: the branch around the chain; None: no condition.
        chain: number of the chain in its file; index: of the branch in its chain.
        required: (condition, whether it holds), of this branch alone.
        new, old: whether the toolkits' compilers come by, branches around it included.
        versioned: a condition, here or around, differs between toolkits or names a toolkit's version.
        dead: whatever the toolkit: ``#if 0``, or another vendor's compiler, here or around.
    """

    parent: "Branch | None"
    chain: int
    index: int
    required: tuple[tuple[str, bool], ...]
    new: Truth
    old: Truth
    versioned: bool
    dead: bool = False

    @property
    def path(self) -> tuple["Branch", ...]:
        """From the outermost branch to this one."""
        return (*(self.parent.path if self.parent else ()), self)

    @property
    def state(self) -> State | None:
        """Of a finding in it; None where no compiler of interest sees it, as under ``#if 0``."""
        if self.dead:
            return None
        if self.new is Truth.FALSE:
            return State.INACTIVE
        return State.LATENT if self.new is Truth.PROJECT else State.ACTIVE


_ROOT = Branch(None, -1, 0, (), Truth.TRUE, Truth.TRUE, versioned=False)


def _root(around: Branch) -> Branch:
    return Branch(None, -1, 0, (), around.new, around.old, around.versioned, around.dead)


_VERSION = re.compile(
    r"\b(?:CUDA(?:RT)?_VERSION|__CUDACC_VER_\w+|__CUDA(?:RT)?_API_VER\w+|(?:THRUST|CUB|CCCL)_\w*VERSION\w*|_CCCL_\w+"
    r"|_LIBCUDACXX_CUDA_API_VERSION\w*)\b"
)


@dataclass
class Conditions:
    """Environments of both toolkits, advanced together through a file."""

    new: Environment
    old: Environment
    # Macros of files whose body comes down to a toolkit's version.
    versioned: set[str] = field(default_factory=set)

    def names_version(self, condition: str) -> bool:
        """Whether a toolkit's version, or a macro made of one, is in it."""
        return bool(_VERSION.search(condition)) or not self.versioned.isdisjoint(
            re.findall(r"\w+", condition)
        )

    def define(self, definition: Definition, branch: Branch) -> None:
        """A ``#define`` in ``branch``."""
        name = definition.name
        macro = Macro(definition.body, definition.parameters)
        missing = (f"defined({name})", False) in branch.required
        self.new.define(name, macro, branch.new, missing=missing)
        self.old.define(name, macro, branch.old, missing=missing)
        if branch.versioned or self.names_version(definition.body):
            self.versioned.add(name)

    def undefine(self, name: str, branch: Branch) -> None:
        """An ``#undef`` in ``branch``."""
        self.new.undefine(name, branch.new)
        self.old.undefine(name, branch.old)


class Guards:
    """The conditions of one file.

    Args:
        code: `lexing.Lexed.code`.
        conditions: what is known where the file begins; left as it is where the file ends.
        included: called with each ``#include`` and its branch, to read its macros.
        around: of a header, the branch that includes it.
    """

    def __init__(
        self,
        code: bytes,
        conditions: Conditions,
        included: Callable[[Directive, Branch], None] = lambda _directive, _branch: None,
        around: Branch | None = None,
    ) -> None:
        self.code = code
        self._root = _ROOT if around is None else _root(around)
        self.directives = tuple(directives(code))
        self.definitions: list[tuple[Definition, Branch]] = []
        self._starts: list[int] = [0]
        self._branches: list[Branch] = [self._root]
        self._chains: list[list[Branch]] = []
        self._read(conditions, included)

    def at(self, offset: int) -> Branch:
        """The branch that holds ``offset``."""
        return self._branches[bisect_right(self._starts, offset) - 1]

    def views(self, offsets: Iterable[int]) -> Iterator[tuple[bytes, frozenset[Branch]]]:
        """Texts of whole branches that together show all ``offsets`` that any compiler may see.

        Each takes one branch of every chain, as a compiler does, so that braces match; the rest, and
        the directives themselves, are blanked. Comes with the branches that are in it.
        """
        wanted = {branch for branch in map(self.at, offsets) if branch.state is not None}
        while wanted:
            seed = min(
                wanted, key=lambda branch: (branch is not self._root, branch.chain, branch.index)
            )
            visible = self._visible(seed, wanted)
            wanted -= visible
            yield self._text(visible), frozenset(visible)

    def _visible(self, seed: Branch, wanted: set[Branch]) -> set[Branch]:
        forced = {branch.chain: branch for branch in seed.path}
        holds = {key: value for branch in seed.path for key, value in branch.required}
        visible = {self._root}
        for number, chain in enumerate(self._chains):
            if not chain or chain[0].parent not in visible:
                continue
            best = forced.get(number)
            if best is None:

                def rank(branch: Branch) -> tuple[bool, bool, bool, bool, int]:
                    truth = branch.old if seed.new is Truth.FALSE else branch.new
                    fits = all(holds.get(key, value) == value for key, value in branch.required)
                    return (
                        truth is not Truth.FALSE and fits,
                        truth is Truth.TRUE,
                        branch in wanted,
                        fits,
                        -branch.index,
                    )

                best = max(chain, key=rank)
                if not rank(best)[0]:
                    continue
            visible.add(best)
            for key, value in best.required:
                holds.setdefault(key, value)
        return visible

    def _text(self, visible: set[Branch]) -> bytes:
        parts = []
        bounds = [*self._starts, len(self.code)]
        for branch, start, end in zip(self._branches, bounds, bounds[1:], strict=False):
            piece = self.code[start:end]
            parts.append(piece if branch in visible else blank(piece))
        text = bytearray(b"".join(parts))
        for directive in self.directives:
            text[directive.start : directive.end] = blank(
                self.code[directive.start : directive.end]
            )
        return bytes(text)

    def _read(self, conditions: Conditions, included: Callable[[Directive, Branch], None]) -> None:
        include_guards = _include_guards(self.directives)
        # Of open chains: number, what earlier branches required, and their truths.
        open_chains: list[_Chain] = []
        branch = self._root
        for index, directive in enumerate(self.directives):
            word = directive.word
            if word in _FIRST:
                chain = _Chain(len(self._chains), branch)
                self._chains.append([])
                open_chains.append(chain)
                branch = chain.branch(
                    _condition(directive), conditions, holds=index in include_guards
                )
            elif word in (*_FURTHER, "else") and open_chains:
                chain = open_chains[-1]
                condition = None if word == "else" else _condition(directive)
                branch = chain.branch(condition, conditions)
            elif word == "endif" and open_chains:
                branch = open_chains.pop().parent
                self._enter(directive.end, branch, new=False)
                continue
            else:
                self._other(directive, branch, conditions, included)
                continue
            self._enter(directive.end, branch)

    def _enter(self, offset: int, branch: Branch, *, new: bool = True) -> None:
        self._starts.append(offset)
        self._branches.append(branch)
        if new:
            self._chains[branch.chain].append(branch)

    def _other(
        self,
        directive: Directive,
        branch: Branch,
        conditions: Conditions,
        included: Callable[[Directive, Branch], None],
    ) -> None:
        if directive.word == "define":
            definition = definition_of(directive)
            if definition:
                conditions.define(definition, branch)
                self.definitions.append((definition, branch))
        elif directive.word == "undef":
            name = _NAME.match(directive.rest)
            if name:
                conditions.undefine(name[1], branch)
        elif directive.word == "include":
            included(directive, branch)


class _Chain:
    """One ``#if`` ... ``#endif`` while it is read."""

    def __init__(self, number: int, parent: Branch) -> None:
        self.number = number
        self.parent = parent
        self._count = 0
        self._earlier: list[tuple[str, bool]] = []
        self._new = self._old = Truth.TRUE  # that no earlier branch was taken
        self._versioned = False

    def branch(
        self, condition: str | None, conditions: Conditions, *, holds: bool = False
    ) -> Branch:
        """The next branch; ``condition``: None for ``#else``; ``holds``: an include guard."""
        new = old = Truth.TRUE
        required = tuple(self._earlier)
        if condition is not None and not holds:
            new, old = conditions.new.truth(condition), conditions.old.truth(condition)
            self._versioned |= new is not old or conditions.names_version(condition)
            plain, value = _plain(condition)
            required = (*required, (plain, value))
            self._earlier.append((plain, not value))
        new_here, old_here = min(self._new, new), min(self._old, old)
        never = new_here is old_here is Truth.FALSE and not self._versioned
        branch = Branch(
            self.parent,
            self.number,
            self._count,
            required,
            min(self.parent.new, new_here),
            min(self.parent.old, old_here),
            self._versioned or self.parent.versioned,
            never or self.parent.dead,
        )
        self._new, self._old = min(self._new, new.negated), min(self._old, old.negated)
        self._count += 1
        return branch


def directives(code: bytes) -> Iterator[Directive]:
    """All directives of ``code``, which has no comments."""
    for match in DIRECTIVE.finditer(code):
        word, rest = match["word"].decode("ascii"), match["rest"].decode("ascii")
        yield Directive(word, rest, match.start(), match.start("rest"), match.end())


def _condition(directive: Directive) -> str:
    text = _CONTINUATION.sub(" ", directive.rest).strip()
    if directive.word in ("ifdef", "elifdef"):
        return f"defined({text.split()[0] if text else ''})"
    if directive.word in ("ifndef", "elifndef"):
        return f"!defined({text.split()[0] if text else ''})"
    return text


def _plain(condition: str) -> tuple[str, bool]:
    """The condition without its leading ``!``, blanks left out, and whether it must hold."""
    text = re.sub(r"\bdefined\s*\(?\s*(\w+)\s*\)?", r"defined(\1)", condition)
    text = "".join(text.split())
    match = re.fullmatch(r"!(defined\(\w+\)|\w+)", text)
    return (match[1], False) if match else (text, True)


def definition_of(directive: Directive) -> Definition | None:
    """What a ``#define`` says; None: it is none of C."""
    match = _DEFINITION.match(directive.rest)
    if match is None:
        return None
    parameters = None
    if match[2] is not None:
        parameters = tuple(part.strip() for part in match[2].split(",") if part.strip())
    body = _CONTINUATION.sub(lambda m: " " * len(m[0]), match[3])
    return Definition(
        match[1],
        parameters,
        body,
        directive.start,
        directive.rest_start + match.start(3),
        directive.end,
    )


def _include_guards(items: tuple[Directive, ...]) -> frozenset[int]:
    """Indices of the ``#ifndef X`` that keep a header from being read twice, or define X if nobody has."""
    found = set()
    for index, (first, second) in enumerate(pairwise(items)):
        if first.word not in ("if", "ifndef") or second.word != "define":
            continue
        plain, value = _plain(_condition(first))
        definition = definition_of(second)
        if value or definition is None or plain != f"defined({definition.name})":
            continue
        if not definition.body.strip() or (index == 0 and _closes_last(items)):
            found.add(index)
    return frozenset(found)


def _closes_last(items: tuple[Directive, ...]) -> bool:
    depth = 0
    for position, directive in enumerate(items):
        depth += {"if": 1, "ifdef": 1, "ifndef": 1, "endif": -1}.get(directive.word, 0)
        if depth == 0:
            return position == len(items) - 1
    return False
