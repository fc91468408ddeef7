"""Uses of struct fields that are gone, told by the type of what they are taken from."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fa3_matrix.migrate.difference import Change
from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.scan import rewrites
from fa3_matrix.migrate.scan.declarations import plain
from fa3_matrix.migrate.scan.expressions import Open, Place, Type
from fa3_matrix.migrate.scan.names import Use
from fa3_matrix.migrate.scan.unit import Unit

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True)
class Member:
    """A use of a field whose owner's type is ``type``; `settle` says what it comes to.

    ``queried``: the owner is what cudaGetDeviceProperties or its like fills in this file.
    """

    finding: Finding
    record: str
    type: Type
    queried: bool


def find(unit: Unit, change: Change, use: Use) -> Member | None:
    """A use of the field ``change.name``, or None where the word is something else."""
    record, _, field = change.name.rpartition("::")
    owner, node = _owner(use, record)
    if node is None:
        return None
    message = f"{record} has no member {field} in CUDA {unit.index.difference.new}."
    edits = () if use.at else rewrites.of_field(unit, change, node, use.place.syntax)
    finding = unit.finding(change, use.place.syntax.span(node), message, edits=edits)
    if finding is None:
        return None
    return Member(finding, record, owner, _text_of_owner(use.place, node) in unit.queried)


def _owner(use: Use, record: str) -> tuple[Type, "Node | None"]:
    """The type that the member is taken from, and the expression; (None, None): no member is meant."""
    place, leaf = use.place, use.place.path[-1]
    parents = place.path[-2::-1]
    if not parents:
        return None, None
    parent = parents[0]
    if parent.type == "field_expression" and parent.child_by_field_name("field") == leaf:
        called = len(parents) > 1 and parents[1].type == "call_expression"
        if called and parents[1].child_by_field_name("function") == parent:
            return None, None
        return _derived(
            place.type_of(parent.child_by_field_name("argument")), place, record
        ), parent
    if use.qualifier:
        full = place.resolved(use.qualifier.removesuffix("::"))
        named = full.removeprefix("::") == record
        return (record, parent) if named and use.role != "declaration" else (None, None)
    if parent.type == "field_designator":
        return _initialized(place), parent
    if parent.type == "offsetof_expression" or _in_offsetof(place):
        kind = next((node for node in parents if node.type == "offsetof_expression"), None)
        told = place.base(kind.child_by_field_name("type")) if kind is not None else record
        return told, kind or parent
    inside = place.enclosing_record()
    if leaf.type == "identifier" and inside and place.lookup(use.word) is None:
        # Whether the class derives from the struct another file may tell.
        derived = record in place.bases(inside)
        return record if derived else Open("base", inside.rpartition("::")[2], ""), leaf
    return None, None


def _derived(told: Type, place: Place, record: str) -> Type:
    """``record`` for a class of this file that derives from it and does not declare the field anew."""
    if isinstance(told, str) and told != record and record in place.bases(told):
        return record
    return told


def _in_offsetof(place: Place) -> bool:
    text = place.syntax.text(place.path[-2]) if len(place.path) > 1 else ""
    return "offsetof" in text[:60] and len(text) < 200


def _initialized(place: Place) -> Type:
    """The type that ``{.field = ...}`` initializes."""
    for node in reversed(place.path):
        if node.type == "compound_literal_expression":
            return place.base(node.child_by_field_name("type"))
        if node.type in ("declaration", "field_declaration"):
            return place.base(node.child_by_field_name("type"))
        if node.type in ("argument_list", "return_statement"):
            return None
    return None


def _text_of_owner(place: Place, node: "Node") -> str | None:
    argument = node.child_by_field_name("argument")
    return "".join(place.syntax.text(argument).split()) if argument is not None else None


def _is_base(type_: Type) -> bool:
    """Whether it is a base class of the class around, where no file may name any."""
    return isinstance(type_, Open) and type_.kind == "base"


def settle(member: Member, told: frozenset[str], *, cuda: bool, rivals: bool) -> Finding | None:
    """The finding, or None where the owner is clearly of another type.

    Args:
        member: the use.
        told: names of types that the owner may have, where any is known.
        cuda: the file has to do with the struct: it, or a header it includes, names it or includes CUDA.
        rivals: another struct of the tree has a field of this name.
    """
    names = {plain(name).removeprefix("::") for name in told}
    if member.record in names:
        sure = "high" if len(names) == 1 else "medium"
    elif member.queried:
        sure = "medium"
    elif names or not cuda or _is_base(member.type):
        return None
    else:
        sure = "low" if rivals else "medium"
    # What may be another struct's field is not changed.
    edits = member.finding.edits if sure == "high" or member.queried else ()
    return replace(member.finding, confidence=sure, edits=edits)
