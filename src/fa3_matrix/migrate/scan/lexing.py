"""C++ text with comments and string contents blanked, at unchanged offsets."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SKIPPED = re.compile(
    rb"""
    (?P<comment> //(?:\\\r?\n|[^\n])* | /\*.*?(?:\*/|\Z) )
  | (?<![A-Za-z0-9_])(?:u8|[uUL])?R"(?P<tag>[^()\\\s"]{0,16})\( (?P<raw>.*?) (?:\)(?P=tag)"|\Z)
  | "(?P<string>(?:[^"\\\n]|\\.)*)(?:"|(?=\n)|\Z)
  | (?<![A-Za-z0-9_])[0-9](?:'?[A-Za-z0-9_.])*   # a number: its ' separates digits
  | '(?P<character>(?:[^'\\\n]|\\.)*)(?:'|(?=\n)|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
# A tree takes 70 times the memory of its text: 4 MB of text, 280 MB.
_PIECE = 4_000_000
_KEPT = b"\n\r"
_BLANKS = bytes(byte if byte in _KEPT else 0x20 for byte in range(256))
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


@dataclass(frozen=True)
class Lexed:
    """``code``: one byte for each character of the text. ``strings``: spans of what stands between quotes."""

    code: bytes
    strings: tuple[tuple[int, int], ...]


def blank(data: bytes) -> bytes:
    """``data`` with spaces for everything but line ends."""
    return data.translate(_BLANKS)


def to_bytes(text: str) -> bytes:
    """One byte for each character, so that offsets of the parser are those of the text.

    A letter outside ASCII becomes ``_``, which an identifier may hold; a byte order mark a blank.
    """
    if not text.isascii():
        text = _NOT_ASCII.sub("_", text.replace("\ufeff", " "))
    return text.encode("ascii").replace(b"\0", b" ")


def lex(text: str) -> Lexed:
    """Blank comments, and what is in quotes. What is not closed ends with its line, or with the text."""
    data = to_bytes(text)
    parts: list[bytes] = []
    strings: list[tuple[int, int]] = []
    done = 0
    for match in _SKIPPED.finditer(data):
        kind = match.lastgroup
        if kind == "tag":
            kind = "raw"
        if kind is None:
            continue
        start, end = match.span(kind)
        if kind in ("string", "raw"):
            strings.append((start, end))
        parts += (data[done:start], blank(data[start:end]))
        done = end
    parts.append(data[done:])
    return Lexed(b"".join(parts), tuple(strings))


def pieces(code: bytes, size: int = _PIECE) -> Iterator[tuple[int, int]]:
    """Spans of some ``size`` bytes, each of whole functions and types, that together are ``code``.

    What lies between braces is never cut, however long.
    """
    start = depth = 0
    for match in re.finditer(rb"[{}]", code) if len(code) > size else ():
        depth = max(0, depth + (1 if match[0] == b"{" else -1))
        if depth == 0 and match.end() - start > size:
            end = code.find(b"\n", match.end()) + 1 or len(code)
            yield start, end
            start = end
    if start < len(code):
        yield start, len(code)
