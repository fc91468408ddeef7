"""What a name means at a place in a file."""

from typing import TYPE_CHECKING, Self

from fa3_matrix.migrate.scan.declarations import (
    DIRECTIVE,
    RECORDS,
    Declarations,
    Entry,
    declarator_of,
    parameters_of,
    plain,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_CONTAINERS = frozenset(
    [
        "translation_unit",
        "declaration_list",
        "compound_statement",
        "field_declaration_list",
        "parameter_list",
        "for_statement",
        "for_range_loop",
        "condition_clause",
        "init_statement",
        "ERROR",
        "template_parameter_list",
        "enumerator_list",
    ]
)
# Of aliases of aliases, which may lead in a circle.
DEPTH = 16


class Scope:
    """One place of a file: a path of nodes, and the place that a macro is used at, where it is in a macro."""

    def __init__(
        self, declarations: Declarations, path: list["Node"], outer: Self | None = None
    ) -> None:
        self.declarations = declarations
        self.syntax = declarations.syntax
        self.path = path
        self.outer = outer

    def lookup(self, name: str) -> Entry | None:
        """The declaration that ``name`` finds, not counting what its own statement declares later."""
        entry, _ = self.find(name)
        return entry

    def find(self, name: str) -> tuple[Entry | None, Self]:
        """The declaration, and the place in whose tree it stands."""
        leaf = self.path[-1].start_byte
        for node in reversed(self.path):
            entry = self._in(node, name, leaf)
            if entry is not None:
                return entry, self
        return self.outer.find(name) if self.outer else (None, self)

    def namespaces(self) -> list[str]:
        """Namespaces that unqualified names are looked up in: those around the place, and ``using namespace``."""
        found = []
        around = []
        for node in self.path:
            if node.type == "namespace_definition":
                name = node.child_by_field_name("name")
                around += plain(self.syntax.text(name)).split("::") if name is not None else []
            elif node.type in _CONTAINERS:
                for entry in self.declarations.scope(node).get(DIRECTIVE, []):
                    if entry.type is not None and entry.start <= self.path[-1].start_byte:
                        found.append(self.resolved(plain(self.syntax.text(entry.type))))
        if around:
            found.append("::".join(around))
        return found + (self.outer.namespaces() if self.outer else [])

    def resolved(self, name: str) -> str:
        """``name`` with the alias at its head replaced: ``cg::sync`` is ``cooperative_groups::sync``."""
        name = name.removeprefix("::")
        for _ in range(DEPTH):
            head, separator, rest = name.partition("::")
            entry, place = self.find(head)
            if entry is None or entry.kind not in ("alias", "using") or entry.type is None:
                break
            target = plain(place.syntax.text(entry.type)).removeprefix("::")
            if target.partition("::")[0] == head:
                return target + separator + rest
            name = target + separator + rest
        return name

    def _in(self, node: "Node", name: str, leaf: int) -> Entry | None:
        if node.type in _CONTAINERS:
            anywhere = node.type == "field_declaration_list"
            entries = self.declarations.scope(node).get(name, [])
            found = [entry for entry in entries if anywhere or entry.start <= leaf]
            return found[-1] if found else None
        if node.type in (
            "function_definition",
            "lambda_expression",
            "field_declaration",
            "declaration",
        ):
            for parameters in parameters_of(node):
                entries = self.declarations.scope(parameters).get(name, [])
                if entries:
                    return entries[-1]
        if node.type == "function_definition":
            owner = self._class_of(node)
            for body in self.declarations.records.get(owner, []) if owner else []:
                entry = self._member(body, name)
                if entry is not None:
                    return entry
        if node.type == "template_declaration":
            return self._in(node.child_by_field_name("parameters") or node.children[0], name, leaf)
        if node.type in ("if_statement", "while_statement", "switch_statement"):
            condition = node.child_by_field_name("condition")
            return self._in(condition, name, leaf) if condition is not None else None
        return None

    def _member(self, record: "Node", name: str) -> Entry | None:
        body = record.child_by_field_name("body")
        entries = self.declarations.scope(body).get(name, []) if body is not None else []
        return entries[0] if entries else None

    def _class_of(self, function: "Node") -> str | None:
        """``A`` of ``void A::f() {}``."""
        inner, _ = declarator_of(function.child_by_field_name("declarator"))
        if inner is None or inner.type != "qualified_identifier":
            return None
        return plain(self.syntax.text(inner)).rpartition("::")[0] or None

    def enclosing_record(self) -> str | None:
        """The class that the place is in, by nesting or as in ``void A::f() {}``."""
        for node in reversed(self.path):
            if node.type in RECORDS:
                return self.declarations.record_name(node)
            if node.type == "function_definition":
                owner = self._class_of(node)
                if owner:
                    return owner
        return self.outer.enclosing_record() if self.outer else None

    def bases(self, name: str) -> list[str]:
        """Base classes of a struct of this file."""
        found = []
        for node in self.declarations.records.get(name, []):
            for child in node.named_children:
                if child.type == "base_class_clause":
                    kinds = ("type_identifier", "qualified_identifier", "template_type")
                    found += [
                        plain(self.syntax.text(c)) for c in child.named_children if c.type in kinds
                    ]
        return found
