"""Function-like macros of a file, expanded where a name of the difference goes through them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fa3_matrix.migrate.scan.guards import Definition

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_LIMIT = 1 << 14  # characters; more is not what a person reads, and macros can double at each level
_LEVELS = 8


@dataclass(frozen=True)
class Invocation:
    """A use of a macro, ``start`` to ``end``, with the arguments that follow; None: none do."""

    definition: Definition
    start: int
    end: int
    arguments: tuple[str, ...] | None


def invocation_at(code: bytes, definition: Definition, start: int) -> Invocation | None:
    """The use of ``definition`` whose name stands at ``start``; None: no call where one is needed."""
    end = start + len(definition.name)
    read = _arguments(code, end)
    if definition.parameters is None:  # an object-like macro may stand for a function's name
        return Invocation(definition, start, *((read[1], read[0]) if read else (end, None)))
    return Invocation(definition, start, read[1], read[0]) if read else None


def _arguments(code: bytes, start: int) -> tuple[tuple[str, ...], int] | None:
    open_ = re.compile(rb"\s*\(").match(code, start)
    if open_ is None:
        return None
    parts, depth, begin = [], 1, open_.end()
    for match in re.compile(rb"[()\[\]{},]").finditer(code, begin, begin + _LIMIT):
        symbol = match[0]
        if symbol in b"([{":
            depth += 1
        elif symbol in b")]}":
            depth -= 1
        if depth == 0 or (depth == 1 and symbol == b","):
            parts.append(code[begin : match.start()].decode("ascii").strip())
            begin = match.end()
        if depth == 0:
            return tuple(parts), match.end()
    return None


def expanded(invocation: Invocation, definitions: dict[str, Definition]) -> str | None:
    """What the preprocessor would put there, on one line; None where it grows without reason."""
    text = _substituted(invocation.definition, invocation.arguments)
    hidden = {invocation.definition.name}
    for _ in range(_LEVELS):
        replaced = _once(text, definitions, hidden)
        if replaced is None or len(replaced) > _LIMIT:
            return None
        if replaced == text:
            break
        text = replaced
    return text


def _once(text: str, definitions: dict[str, Definition], hidden: set[str]) -> str | None:
    parts: list[str] = []
    done = 0
    code = text.encode("ascii")
    for match in _IDENTIFIER.finditer(text):
        definition = definitions.get(match[0])
        if match.start() < done or definition is None or match[0] in hidden:
            continue
        used = invocation_at(code, definition, match.start())
        if used is None:
            continue
        parts += (text[done : match.start()], _substituted(definition, used.arguments))
        done = used.end
        if sum(map(len, parts)) > _LIMIT:
            return None
    return "".join([*parts, text[done:]])


def _substituted(definition: Definition, arguments: tuple[str, ...] | None) -> str:
    body = " ".join(definition.body.split())
    if definition.parameters is None:
        return body if arguments is None else f"{body}({', '.join(arguments)})"
    arguments = arguments or ()
    given: dict[str, str] = {}
    for position, parameter in enumerate(definition.parameters):
        if parameter.endswith("..."):
            name = parameter.removesuffix("...").strip() or "__VA_ARGS__"
            given[name] = ", ".join(arguments[position:])
        else:
            given[parameter] = arguments[position] if position < len(arguments) else ""
    body = re.sub(r"__VA_OPT__\s*\(([^()]*)\)", r"\1", body)
    # `, ##__VA_ARGS__` leaves the comma out where nothing is given.
    if given.get("__VA_ARGS__") == "":
        body = re.sub(r",\s*##\s*__VA_ARGS__", "", body)
    body = re.sub(r"(?<!#)#\s*(?=\w)(\w+)", '""', body)
    body = _IDENTIFIER.sub(lambda match: given.get(match[0], match[0]), body)
    return re.sub(r"\s*##\s*", "", body)


def calls_through(definition: Definition) -> frozenset[str]:
    """Parameters that the macro calls: ``f`` of ``#define CHECK(f, ...) check(f(__VA_ARGS__))``."""
    if definition.parameters is None:
        return frozenset()
    return frozenset(
        name
        for name in definition.parameters
        if re.search(
            rf"\b{re.escape(name)}\s*\(|##\s*{re.escape(name)}\b|\b{re.escape(name)}\s*##",
            definition.body,
        )
    )


def is_forwarding(definition: Definition) -> bool:
    """Whether calls in its body have as many arguments as its use gives, or it is another name of something."""
    if definition.parameters is None:
        return _IDENTIFIER.fullmatch(definition.body.strip()) is not None
    return any(parameter.endswith("...") for parameter in definition.parameters)


def uses(code: bytes, definition: Definition) -> Iterator[int]:
    """Offsets where the name of ``definition`` stands after its definition."""
    pattern = re.compile(rb"(?<![A-Za-z0-9_])" + definition.name.encode() + rb"(?![A-Za-z0-9_])")
    for match in pattern.finditer(code, definition.end):
        yield match.start()
