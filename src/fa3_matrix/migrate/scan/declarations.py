"""What a file declares, scope by scope."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from fa3_matrix.migrate.scan.syntax import Syntax, language

if TYPE_CHECKING:
    from tree_sitter import Node, Query

_TRANSPARENT = frozenset(
    [
        "template_declaration",
        "linkage_specification",
        "ERROR",
        "labeled_statement",
        "init_statement",
    ]
)
_VARIABLES = frozenset(
    [
        "declaration",
        "field_declaration",
        "parameter_declaration",
        "optional_parameter_declaration",
        "for_range_loop",
    ]
)
RECORDS = frozenset(("struct_specifier", "class_specifier", "union_specifier"))
# The name under which a scope keeps its `using namespace`.
DIRECTIVE = ""


@dataclass(frozen=True)
class Entry:
    """One declaration.

    ``kind``: "variable" | "function" | "alias" | "type" | "enumerator" | "namespace" | "using" | "directive" |
    "parameter" (of a template). ``value``: what a variable's type follows from, where it is ``auto``.
    """

    kind: str
    start: int
    type: "Node | None" = None
    value: "Node | None" = None


class Declarations:
    """What the file of ``syntax`` declares, found where it is asked for."""

    def __init__(self, syntax: Syntax) -> None:
        self.syntax = syntax
        self._scopes: dict[int, dict[str, list[Entry]]] = {}
        self._records: dict[str, list[Node]] | None = None

    def scope(self, container: "Node") -> dict[str, list[Entry]]:
        """Declarations directly in ``container``, by name."""
        found = self._scopes.get(container.id)
        if found is None:
            found = defaultdict(list)
            children = (
                [container] if container.type == "for_range_loop" else container.named_children
            )
            for child in children:
                for name, entry in self._declared(child):
                    found[name].append(entry)
            self._scopes[container.id] = found = dict(found)
        return found

    @property
    def records(self) -> dict[str, list["Node"]]:
        """Bodies of structs, classes and unions by name; ``@<offset>`` where they have none."""
        if self._records is None:
            from tree_sitter import QueryCursor

            self._records = defaultdict(list)
            captures = QueryCursor(_record_query()).captures(self.syntax.root)
            for node in captures.get("record", []):
                self._records[self.record_name(node)].append(node)
        return self._records

    def record_name(self, node: "Node") -> str:
        """Of a struct, as `records` has it."""
        name = node.child_by_field_name("name")
        return plain(self.syntax.text(name)) if name is not None else f"@{node.start_byte}"

    def _declared(self, node: "Node") -> Iterator[tuple[str, Entry]]:
        text = self.syntax.text
        name = node.child_by_field_name("name")
        start = node.start_byte
        if node.type in _VARIABLES or node.type == "function_definition":
            yield from self._variables(node)
        elif node.type in _TRANSPARENT or _unnamed_namespace(node):
            body = node.child_by_field_name("body")
            for child in (
                body if body is not None and body.type == "declaration_list" else node
            ).named_children:
                yield from self._declared(child)
        elif node.type == "type_definition":
            for declarator in node.children_by_field_name("declarator"):
                inner, _ = declarator_of(declarator)
                if inner is not None:
                    yield text(inner), Entry("alias", start, node.child_by_field_name("type"))
            yield from self._types(node.child_by_field_name("type"))
        elif node.type == "alias_declaration" and name is not None:
            yield text(name), Entry("alias", start, node.child_by_field_name("type"))
        elif node.type in RECORDS or node.type == "enum_specifier":
            yield from self._types(node)
        elif node.type == "enumerator" and name is not None:
            yield text(name), Entry("enumerator", start)
        elif node.type == "namespace_definition" and name is not None:
            yield text(name), Entry("namespace", start)
        elif node.type == "namespace_alias_definition" and name is not None:
            yield text(name), Entry("alias", start, node.named_children[-1])
        elif node.type == "using_declaration" and node.named_children:
            named = node.named_children[-1]
            if any(child.type == "namespace" for child in node.children):
                yield DIRECTIVE, Entry("directive", start, named)
            else:
                yield plain(text(named)).rpartition("::")[2], Entry("using", start, named)
        elif node.type.endswith("type_parameter_declaration"):
            yield text(node).split()[-1], Entry("parameter", start)

    def _types(self, node: "Node | None") -> Iterator[tuple[str, Entry]]:
        if node is None or node.child_by_field_name("body") is None:
            return
        name = node.child_by_field_name("name")
        if name is not None:
            yield self.syntax.text(name), Entry("type", node.start_byte, node)
        body = node.child_by_field_name("body")
        if node.type == "enum_specifier" and body is not None:
            for child in body.named_children:
                yield from self._declared(child)

    def _variables(self, node: "Node") -> Iterator[tuple[str, Entry]]:
        kind = node.child_by_field_name("type")
        yield from self._types(kind)
        loop = node.child_by_field_name("right") if node.type == "for_range_loop" else None
        for declarator in node.children_by_field_name("declarator"):
            inner, function = declarator_of(declarator)
            if inner is None or inner.type not in (
                "identifier",
                "field_identifier",
                "type_identifier",
            ):
                continue
            value = declarator.child_by_field_name("value") or node.child_by_field_name(
                "default_value"
            )
            entry = Entry(
                "function" if function else "variable", node.start_byte, kind, loop or value
            )
            yield self.syntax.text(inner), entry


def parameters_of(node: "Node") -> Iterator["Node"]:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None:
        parameters = declarator.child_by_field_name("parameters")
        if parameters is not None:
            yield parameters
        declarator = declarator.child_by_field_name("declarator") or _wrapped(declarator)


def _wrapped(node: "Node") -> "Node | None":
    """Of ``&x`` and ``(x)``, whose grammar names no field."""
    if node.type in ("reference_declarator", "parenthesized_declarator", "attributed_declarator"):
        return (
            node.named_children[-1 if node.type == "reference_declarator" else 0]
            if node.named_children
            else None
        )
    return None


def declarator_of(node: "Node | None") -> tuple["Node | None", bool]:
    """The name that a declarator declares, and whether it declares a function (not a pointer to one)."""
    function = False
    while node is not None and node.type.endswith("_declarator"):
        if node.type == "function_declarator":
            function = True
        elif node.type == "pointer_declarator" or node.type == "array_declarator":
            # `T (*f)()`: the star is inside the parentheses; `T *f()`: outside of the function.
            function = False
        node = node.child_by_field_name("declarator") or _wrapped(node)
    return node, function


def plain(name: str) -> str:
    """``a::b`` of ``a :: b<c>``."""
    depth, parts = 0, []
    for character in name:
        if character == "<":
            depth += 1
        elif character == ">":
            depth -= 1
        elif depth == 0 and not character.isspace():
            parts.append(character)
    return "".join(parts)


def _unnamed_namespace(node: "Node") -> bool:
    if node.type != "namespace_definition":
        return False
    return node.child_by_field_name("name") is None or node.children[0].type == "inline"


@cache
def _record_query() -> "Query":
    from tree_sitter import Query

    return Query(
        language(),
        "[(struct_specifier body: (_)) (class_specifier body: (_)) (union_specifier body: (_))] @record",
    )
