"""How a result, or the difference of two toolkits, is written: one module a format, each a function to text."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from fa3_matrix.errors import Fa3Error
from fa3_matrix.migrate.difference import Change, Difference
from fa3_matrix.migrate.formats import html, json, markdown, sarif, text
from fa3_matrix.migrate.result import Result

__all__ = ["DIFFERENCE_FORMATS", "FORMATS", "Format", "FormatError", "of_file"]


class FormatError(Fa3Error):
    """There is no such format, or not of this."""


class Format(StrEnum):
    """The formats by name."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    SARIF = "sarif"
    HTML = "html"


FORMATS: dict[Format, Callable[[Result], str]] = {
    Format.TEXT: text.result,
    Format.JSON: json.result,
    Format.MARKDOWN: markdown.result,
    Format.SARIF: sarif.result,
    Format.HTML: html.result,
}

# SARIF states results in files: a difference of toolkits has none.
DIFFERENCE_FORMATS: dict[Format, Callable[[Difference, tuple[Change, ...]], str]] = {
    Format.TEXT: text.difference,
    Format.JSON: json.difference,
    Format.MARKDOWN: markdown.difference,
    Format.HTML: html.difference,
}

_SUFFIXES = {
    ".txt": Format.TEXT,
    ".json": Format.JSON,
    ".md": Format.MARKDOWN,
    ".sarif": Format.SARIF,
    ".html": Format.HTML,
}


def of_file(path: Path) -> Format:
    """The format that a file's name asks for.

    Raises:
        FormatError: by no known suffix.
    """
    try:
        return _SUFFIXES[path.suffix.lower()]
    except KeyError:
        known = ", ".join(_SUFFIXES)
        raise FormatError(
            f"{path}: the suffix chooses the format, and must be one of {known}"
        ) from None
