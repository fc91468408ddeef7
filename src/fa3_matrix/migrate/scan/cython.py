"""Cython: what a .pxd or .pyx declares of the toolkit's headers, by name."""

import re
from collections.abc import Iterator

from fa3_matrix.migrate.difference import Change, Difference
from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.rules import State
from fa3_matrix.migrate.scan.comments import blanked
from fa3_matrix.migrate.scan.conditions import Branch, evaluate
from fa3_matrix.migrate.scan.conditions import state as state_of
from fa3_matrix.migrate.scan.source import Source

SUFFIXES = (".pxd", ".pyx", ".pxi")

_NAMED = {
    "FN-REMOVED",
    "FN-SUFFIX",
    "FN-SIG",
    "TYPE-REMOVED",
    "ENUM-REMOVED",
    "MACRO-REMOVED",
    "ALIAS-REMOVED",
}


def find(file: str, text: str, difference: Difference) -> Iterator[Finding]:
    """Functions, types, constants and fields that changed; moved modules that are cimported."""
    source = Source(file, _STRING.sub(_emptied, blanked(text)), difference)
    states = _states(source)
    by_name = {c.name: c for c in difference.changes if c.rule in _NAMED}
    for match in re.finditer(r"(?<![\w.])[A-Za-z_]\w*", source.text):
        change = by_name.get(match[0])
        confidence = _fits(source, match.end(), change) if change else None
        if change and confidence:
            state = states[source.position(match.start())[0] - 1]
            yield _finding(source, match.span(), change, state, confidence)
    yield from _fields(source, states)
    yield from _modules(source, states)


# What a string says is no use of it; the quotes stay.
_STRING = re.compile(
    r"""(?P<quote>\"{3}|'{3}|"|')(?P<inner>(?:\\.|(?!(?P=quote)).)*?)(?P=quote)""", re.DOTALL
)


def _emptied(match: re.Match[str]) -> str:
    inner = match["inner"]
    if len(match["quote"]) == 1 and "\n" in inner:
        return match[0]  # an apostrophe, not a string
    return match["quote"] + re.sub(r"[^\n]", " ", inner) + match["quote"]


def _finding(
    source: Source, span: tuple[int, int], change: Change, state: State, confidence: str
) -> Finding:
    return source.finding(
        change.rule,
        span,
        change.name,
        f"{change.name} is now {change.new}."
        if change.new
        else f"{change.name} is not in {change.where} of CUDA {source.difference.new}.",
        change=change,
        state=state,
        confidence=confidence,
    )


def _fits(source: Source, end: int, change: Change) -> str | None:
    """How surely what stands behind a name is the old form; None: it isn't.

    Where as many arguments were and are taken, the type of one decides: sure in a declaration, guessed in a call.
    """
    if change.rule != "FN-SIG":
        return "high"
    arguments = _arguments(source.text, end)
    if arguments is None:
        return None  # the name alone: an import, a pointer
    for call in change.broken_calls:
        if call.arguments != len(arguments):
            continue
        if call.certain or call.position >= len(arguments) or not call.new:
            return "high"
        given = arguments[call.position]
        if call.old and re.match(rf"{re.escape(call.old)}\b", given):
            return "high"
        # cudaMemLocation: `loc`, `location`, `_MemLocation` are of the new type.
        last = re.findall(r"[A-Z][a-z]+", call.new)
        return None if last and last[-1][:3].lower() in given.lower() else "medium"
    return "high" if not change.broken_calls and len(arguments) in change.old_arities else None


def _arguments(text: str, offset: int) -> list[str] | None:
    """The arguments in the parentheses that begin at ``offset``, or None where there are none."""
    opened = re.compile(r'\s*(?:"[^"]*"\s*)?\(').match(text, offset)
    if opened is None:
        return None
    depth, start, found = 1, opened.end(), []
    for index in range(opened.end(), min(len(text), opened.end() + 4000)):
        character = text[index]
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 or (depth == 1 and character == ","):
            found.append(text[start:index].strip())
            start = index + 1
        if depth == 0:
            return found if found != [""] else []
    return None


def _fields(source: Source, states: list[State]) -> Iterator[Finding]:
    """In the block that declares the struct; where there is none, behind a dot, if the struct is named at all."""
    for change in source.difference.changes:
        if change.rule != "FIELD-REMOVED":
            continue
        owner, _, field = change.name.rpartition("::")
        if not re.search(rf"\b{re.escape(owner)}\b", source.text):
            continue
        block = re.search(
            rf"^(?P<indent>[ \t]*)(?:ctypedef|cdef)\s+(?:struct|cppclass)\s+{re.escape(owner)}\b[^\n]*:[ \t]*\r?\n"
            r"(?P<body>(?:(?:(?P=indent)[ \t]+[^\n]*|[ \t]*)(?:\n|\Z))*)",
            source.text,
            re.MULTILINE,
        )
        if block:
            where, pattern, confidence = block.span("body"), rf"\b{field}\b", "high"
        else:
            where, pattern, confidence = (0, len(source.text)), rf"(?<=\.){field}\b", "medium"
        for match in re.compile(pattern).finditer(source.text, *where):
            state = states[source.position(match.start())[0] - 1]
            yield _finding(source, match.span(), change, state, confidence)


def _modules(source: Source, states: list[State]) -> Iterator[Finding]:
    for name, change in source.difference.by_rule.get("PY-IMPORT", {}).items():
        parent, _, child = map(re.escape, name.rpartition("."))
        pattern = (
            rf"^[ \t]*(?P<what>c?import\s+{re.escape(name)}|from\s+{re.escape(name)}\s+c?import"
            rf"|from\s+{parent}\s+c?import\s[^\n]*\b{child})(?!\w)"
        )
        for match in re.finditer(pattern, source.text, re.MULTILINE):
            yield source.finding(
                change.rule,
                match.span("what"),
                name,
                f"{name} is {change.successor or 'gone'}.",
                change=change,
                state=states[source.position(match.start())[0] - 1],
            )


def _states(source: Source) -> list[State]:
    """Of each line, from the ``IF``/``ELIF``/``ELSE`` (and lower case) blocks around it, told by indentation."""
    states = []
    blocks: list[tuple[int, Branch]] = []  # with its indentation
    for line in source.text.split("\n"):
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if text:
            word = re.match(r"(IF|ELIF|ELSE|if|elif|else)\b\s*(.*?):\s*$", text)
            while blocks and blocks[-1][0] > indent:
                blocks.pop()
            before = blocks.pop()[1] if blocks and blocks[-1][0] == indent else None
            if word:
                value = evaluate(word[2], source.difference.new) if word[2] else True
                continued = before if word[1].lower() != "if" else None
                blocks.append((indent, continued.next(value) if continued else Branch(value)))
        states.append(state_of(branch.reached for _, branch in blocks))
    return states
