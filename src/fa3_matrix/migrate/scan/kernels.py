"""Kernel templates that are launched where they are not defined: their stubs have internal linkage now."""

import re
from collections.abc import Callable, Iterator

from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.scan.lexing import blank
from fa3_matrix.migrate.scan.unit import Unit

_DECLARED = re.compile(
    rb"(?P<extern>\bextern\s+)?\btemplate\b\s*(?:<[^;{}()]*>)?[^;{}]{0,400}?\b__global__\b[^;{}]{0,400}?"
    rb"\b(?P<name>[A-Za-z_]\w*)\s*(?:<[^;{}()]*>\s*)?\([^;{}]*\)\s*;"
)


def find(unit: Unit, defined_elsewhere: Callable[[str], bool]) -> Iterator[Finding]:
    """Declarations of kernel templates that this file launches and does not define.

    Args:
        unit: the file.
        defined_elsewhere: whether a header that the file includes defines the template.
    """
    changes = [change for change in unit.index.kernels if change.rule == "LINK-STUB"]
    if not changes or b"<<<" not in unit.code or b"template" not in unit.code:
        return
    code = bytearray(unit.code)
    for directive in unit.guards.directives:
        code[directive.start : directive.end] = blank(unit.code[directive.start : directive.end])
    for match in _DECLARED.finditer(code):
        name = match["name"].decode("ascii")
        launched = re.search(rb"\b" + match["name"] + rb"\b\s*(?:<[^;{}]*?>)?\s*<<<", code)
        if launched is None or definition_of(name).search(code) or defined_elsewhere(name):
            continue
        if (
            match["extern"] is None
            and match[0].split()[0] == b"template"
            and b"<" not in match[0][:12]
        ):
            continue  # an explicit instantiation, here
        found = unit.finding(
            changes[0],
            (match.start("name"), match.end("name")),
            f"Kernel template {name} is launched here and defined in another unit: its stub has internal "
            f"linkage in CUDA {unit.index.difference.new}.",
            confidence="medium",
        )
        if found:
            yield found


def definition_of(name: str) -> re.Pattern[bytes]:
    """Matches where a function is defined."""
    return re.compile(rb"\b" + name.encode() + rb"\s*\([^;{}]*\)\s*\{")
