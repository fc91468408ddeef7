"""Where a name of the difference stands in code: whether it means the toolkit's entity, and what is done with it."""

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fa3_matrix.migrate.difference import Change
from fa3_matrix.migrate.finding import Edit, Finding
from fa3_matrix.migrate.scan import rewrites
from fa3_matrix.migrate.scan.calls import judge, judge_template
from fa3_matrix.migrate.scan.expressions import Place
from fa3_matrix.migrate.scan.unit import Unit

if TYPE_CHECKING:
    from tree_sitter import Node

_QUALIFIER = re.compile(
    rb"(?:[A-Za-z_]\w*[ \t]*)?(?:::\s*(?:template\s+)?[A-Za-z_]\w*[ \t]*)*::\s*$"
)
# Words that other namespaces declare as well: an unqualified use after `using namespace` may mean theirs.
_COMMON = frozenset(
    [
        "pair",
        "tuple",
        "get",
        "tie",
        "distance",
        "Max",
        "Min",
        "Sum",
        "max",
        "min",
        "swap",
        "optional",
        "identity",
        "Swap",
        "If",
    ]
)
# CUDA declares them outside of any namespace as well: an unqualified call finds those.
_GLOBAL = frozenset(("max", "min"))
_REACH = 240
_RECORDS = ("struct_specifier", "class_specifier", "union_specifier")
_SPECIALISED = ("template_type", "qualified_identifier")
_WRAPPERS = ("template_function", "template_type", "template_method", "qualified_identifier")


@dataclass(frozen=True)
class Use:
    """A name at one place. ``span``: with its qualifiers; ``call``: the call expression whose function it is.

    ``role``: "call" | "value" | "declaration" | "member".
    """

    word: str
    span: tuple[int, int]
    qualifier: str
    role: str
    place: Place
    call: "Node | None" = None
    at: tuple[int, int] | None = None  # of the macro's use, where the name is in an expansion

    @property
    def shown(self) -> tuple[int, int]:
        """Of what a report shows: the use of the macro, the whole call, or the name."""
        if self.at is not None:
            return self.at
        return self.place.syntax.span(self.call) if self.call is not None else self.span


def use_at(word: str, offset: int, place: Place) -> Use:
    """What is at ``offset``, where ``word`` stands."""
    data, start = place.syntax.data, offset - place.syntax.shift
    before = data[max(0, start - _REACH) : start]
    match = _QUALIFIER.search(before) if before.rstrip().endswith(b"::") else None
    qualifier, first = "", start
    if match:
        lead = match[0].lstrip()
        qualifier = "".join(re.sub(rb"\btemplate\b", b"", lead).decode("ascii").split())
        first = start - len(lead)
        if qualifier.startswith("::") and before[: -len(lead)].rstrip().endswith(b">"):
            qualifier = f"<>{qualifier}"  # a member of a template: no name of the toolkit
    role, call = _role(place)
    shift = place.syntax.shift
    return Use(word, (first + shift, start + len(word) + shift), qualifier, role, place, call)


def _role(place: Place) -> tuple[str, "Node | None"]:
    child = place.path[-1]
    for parent in reversed(place.path[:-1]):
        kind = parent.type
        if kind in _WRAPPERS and parent.child_by_field_name("name") == child:
            child = parent
        elif kind == "call_expression" and parent.child_by_field_name("function") == child:
            return "call", parent
        elif kind == "field_designator" or parent.child_by_field_name("field") == child:
            return "member", None
        elif kind.endswith("_declarator") and kind != "abstract_pointer_declarator":
            # What a variable is made of, and how many an array has, is used, not declared.
            used = [parent.child_by_field_name(field) for field in ("value", "size")]
            if child in used or child.type == "parameter_list":
                return "value", None
            child = parent
        else:
            return ("declaration" if _declares(parent, child) else "value"), None
    return "value", None


def _declares(parent: "Node", child: "Node") -> bool:
    kind = parent.type
    if kind in _RECORDS:
        # What is specialised is declared elsewhere.
        if child.type in _SPECIALISED:
            return False
        return parent.child_by_field_name("name") == child and (
            parent.child_by_field_name("body") is not None
        )
    if kind in ("enumerator", "alias_declaration", "namespace_alias_definition", "enum_specifier"):
        return parent.child_by_field_name("name") == child
    if child.type == "qualified_identifier":
        return False
    return child in parent.children_by_field_name("declarator")


def meant(change: Change, use: Use) -> str | None:
    """How sure it is that the use means ``change.name``: a confidence, or None if it means something else."""
    if use.role in ("declaration", "member"):
        return None
    if "::" not in change.name:
        if use.qualifier.strip(":"):
            return None
        shadow = None if use.qualifier == "::" else use.place.lookup(use.word)
        return None if shadow is not None else "high"
    if use.qualifier:
        return _qualified(change.name, use)
    entry = use.place.lookup(use.word)
    if entry is not None:
        return None  # declared here, or by a `using` that is a finding itself
    scope = change.name.rpartition("::")[0]
    if scope not in use.place.namespaces() or use.word in _GLOBAL:
        return None
    return "medium" if use.word in _COMMON else "high"


def _qualified(name: str, use: Use) -> str | None:
    written = use.qualifier.removeprefix("::") + use.word
    full = use.place.resolved(written)
    if full == name:
        return "high"
    if full.endswith("::" + name):  # wrapped, as by CUB_WRAPPED_NAMESPACE
        return "medium"
    if written.startswith("std::"):
        return None
    around = use.place.namespaces()
    return "high" if any(f"{scope}::{written}" == name for scope in around) else None


def find(unit: Unit, change: Change, use: Use) -> Finding | None:
    """The finding of ``change`` at ``use``, or None."""
    confidence = meant(change, use)
    if confidence is None:
        return None
    if change.rule in ("FN-SIG", "CCCL-SIG"):
        if use.call is not None and rewrites.is_rewritten(use.call, use.place.syntax):
            return None
        template = change.kind == "cccl-template"
        verdict = (
            judge_template(change, use.place) if template else judge(change, use.call, use.place)
        )
        if verdict is None:
            return None
        sure = confidence if confidence != "high" else verdict.confidence
        edits: tuple[Edit, ...] = ()
        if sure == "high" and use.call is not None and use.at is None:
            edits = rewrites.of_call(unit, change, use.call, use.place.syntax)
        return unit.finding(change, use.shown, verdict.message, confidence=sure, edits=edits)
    if change.kind == "cccl-internal":
        confidence = "medium"  # a name that nobody promised: other code may have it too
    edits = _edits(unit, change, use) if confidence == "high" else ()
    return unit.finding(
        change, use.shown, message_of(change, unit), confidence=confidence, edits=edits
    )


def message_of(change: Change, unit: Unit) -> str:
    """One sentence on what became of an entity."""
    new = unit.index.difference.new
    where = (
        f"CCCL {unit.index.difference.new_cccl}"
        if change.kind.startswith("cccl")
        else f"CUDA {new}"
    )
    if change.rule == "DEPRECATED":
        return f"{change.name} is deprecated in {where}."
    if change.rule == "FN-REMAP":
        return f"{change.name} calls {change.new or 'another symbol'} in {where}, not {change.old or 'the old one'}."
    if change.rule == "ENUM-SENTINEL":
        return f"{change.name} is {change.new} in {where}, not {change.old}."
    if change.rule == "RUNTIME-BEHAVIOUR":
        return f"{change.name} behaves differently in {where}."
    if change.new is not None and change.rule not in ("FN-REMOVED", "CCCL-REMOVED"):
        return f"{change.name} changed in {where}."
    return f"{where} has no {change.name}."


def _edits(unit: Unit, change: Change, use: Use) -> tuple[Edit, ...]:
    """The name replaced, where a replacement of the name alone is known."""
    if use.at is not None:
        return ()
    start, end = use.span
    replacement = change.remedy.replacement if change.remedy else None
    if replacement is None:
        return rewrites.of_object(unit, change, start, use.place.path[-1], use.place.syntax)
    if "::" in change.name and not use.qualifier:
        return ()  # found through `using namespace`: its replacement would not be
    if not unit.source.is_one_line(start, end):
        return ()
    return (unit.source.edit(start, end, replacement),)


def inside(use: Use, span: tuple[int, int]) -> Use:
    """The use, shown as that of the macro at ``span``."""
    return replace(use, at=span)
