"""Types of expressions, as far as a file tells them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fa3_matrix.migrate.scan.declarations import RECORDS, plain
from fa3_matrix.migrate.scan.scopes import DEPTH, Scope

if TYPE_CHECKING:
    from tree_sitter import Node

# Of these templates an expression reaches the (first or last) argument by ->, [], * or a method.
_HOLDERS = frozenset(
    [
        "vector",
        "set",
        "multiset",
        "unordered_set",
        "array",
        "unique_ptr",
        "shared_ptr",
        "optional",
        "span",
        "deque",
        "list",
        "initializer_list",
        "reference_wrapper",
        "atomic",
    ]
)
_MAPS = frozenset(("map", "unordered_map", "multimap"))
_HOLDER_METHODS = frozenset(
    ["at", "front", "back", "get", "data", "value", "begin", "end", "operator*", "emplace_back"]
)
_CASTS = frozenset(("static_cast", "reinterpret_cast", "const_cast", "dynamic_cast"))


@dataclass(frozen=True)
class Open:
    """A type that another file of the tree may tell.

    ``kind``: "field" (of struct ``owner``), "variable" or "function", called ``name``; or "base", a base class of
    ``owner``.
    """

    kind: str
    owner: str
    name: str


# "cudaDeviceProp", without const, * and &; a holder counts as what it holds. None: cannot be told.
Type = str | Open | None


class Place(Scope):
    """A scope whose expressions have types."""

    def base(self, node: "Node | None", depth: int = 0) -> Type:
        """The type that a type's node means, aliases resolved."""
        if node is None or depth > DEPTH:
            return None
        kind = node.type
        if kind in ("type_descriptor", "dependent_type"):
            return self.base(node.child_by_field_name("type") or node.named_children[-1], depth + 1)
        if kind in RECORDS or kind == "enum_specifier":
            return self.declarations.record_name(node)
        if kind in ("placeholder_type_specifier", "decltype", "auto"):
            return None
        if kind == "qualified_identifier":
            held = self._held(node.child_by_field_name("name"), depth)
            return held or plain(self.syntax.text(node))
        if kind == "template_type":
            return self._held(node, depth) or plain(self.syntax.text(node))
        name = self.syntax.text(node)
        if kind not in ("type_identifier", "identifier", "namespace_identifier"):
            return name
        entry, place = self.find(name)
        if entry is not None and entry.kind == "alias":
            return place.base(entry.type, depth + 1) if entry.type != node else name
        if entry is not None and entry.kind == "parameter":
            return None
        return name

    def _held(self, node: "Node | None", depth: int) -> Type:
        while node is not None and node.type == "qualified_identifier":
            node = node.child_by_field_name("name")
        if node is None or node.type != "template_type":
            return None
        name = node.child_by_field_name("name")
        arguments = node.child_by_field_name("arguments")
        if name is None or arguments is None or not arguments.named_children:
            return None
        template = self.syntax.text(name)
        if template in _HOLDERS:
            return self.base(arguments.named_children[0], depth + 1)
        if template in _MAPS and len(arguments.named_children) > 1:
            return self.base(arguments.named_children[1], depth + 1)
        return None

    def type_of(self, node: "Node | None", depth: int = 0) -> Type:
        """Of an expression, as far as this file tells."""
        if node is None or depth > DEPTH:
            return None
        kind = node.type
        if kind in ("parenthesized_expression", "pointer_expression", "subscript_expression"):
            inner = node.child_by_field_name("argument")
            if inner is None and node.named_children:
                inner = node.named_children[0]
            return self.type_of(inner, depth + 1)
        if kind in ("identifier", "type_identifier"):
            return self._variable(self.syntax.text(node), depth)
        if kind == "this":
            return self.enclosing_record()
        if kind == "field_expression":
            return self._field(node, depth)
        if kind == "call_expression":
            return self._call(node, depth)
        if kind in ("cast_expression", "compound_literal_expression", "new_expression"):
            return self.base(node.child_by_field_name("type"))
        if kind == "conditional_expression":
            first = self.type_of(node.child_by_field_name("consequence"), depth + 1)
            return first or self.type_of(node.child_by_field_name("alternative"), depth + 1)
        if kind == "qualified_identifier":
            owner, _, name = plain(self.syntax.text(node)).rpartition("::")
            return Open("field", owner, name) if owner else self._variable(name, depth)
        return None

    def _variable(self, name: str, depth: int) -> Type:
        entry, place = self.find(name)
        if entry is None:
            owner = self.enclosing_record()
            return Open("field", owner, name) if owner else Open("variable", "", name)
        if entry.kind in ("type", "alias"):  # T{} and T() parse as calls now and then
            return place.base(entry.type)
        if entry.kind != "variable":
            return None
        told = place.base(entry.type)
        return told if told is not None else place.type_of(entry.value, depth + 1)

    def _field(self, node: "Node", depth: int) -> Type:
        owner = self.type_of(node.child_by_field_name("argument"), depth + 1)
        field = node.child_by_field_name("field")
        if not isinstance(owner, str) or field is None:
            return None
        name = self.syntax.text(field)
        for record in self.declarations.records.get(owner, []):
            entry = self._member(record, name)
            if entry is not None:
                return self.base(entry.type)
        return Open("field", owner, name)

    def _call(self, node: "Node", depth: int) -> Type:
        function = node.child_by_field_name("function")
        if function is None:
            return None
        if function.type == "field_expression":
            field = function.child_by_field_name("field")
            method = self.syntax.text(field) if field is not None else ""
            if method in _HOLDER_METHODS:
                return self.type_of(function.child_by_field_name("argument"), depth + 1)
            return self._field(function, depth)
        name = plain(self.syntax.text(function))
        if function.type == "template_function" and name in _CASTS:
            arguments = function.child_by_field_name("arguments")
            return (
                self.base(arguments.named_children[0])
                if arguments and arguments.named_children
                else None
            )
        if name in ("std::move", "std::ref", "std::cref", "std::as_const", "move"):
            inner = node.child_by_field_name("arguments")
            return (
                self.type_of(inner.named_children[0], depth + 1)
                if inner and inner.named_children
                else None
            )
        entry, place = self.find(name)
        if entry is None:
            return Open("function", "", name)
        return place.base(entry.type) if entry.kind in ("function", "type", "alias") else None
