"""What a file tells the others of its tree: types of fields, variables and functions, and names it declares itself."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from fa3_matrix.migrate.scan.declarations import Declarations, plain
from fa3_matrix.migrate.scan.expressions import Place, Type
from fa3_matrix.migrate.scan.unit import Unit


def _table() -> dict[tuple[str, str, str], set[str]]:
    return defaultdict(set)


@dataclass
class Facts:
    """``known``: (kind, owner, name) of an `Open` type -> types.

    ``declared``: names of the difference that the file declares, so that they mean something else.
    """

    known: dict[tuple[str, str, str], set[str]] = field(default_factory=_table)
    declared: set[str] = field(default_factory=set)

    @staticmethod
    def merged(many: Iterable["Facts"]) -> "Facts":
        """Of a whole tree."""
        merged = Facts()
        for facts in many:
            for key, types in facts.known.items():
                merged.known[key] |= types
            merged.declared |= facts.declared
        return merged

    def types(self, type_: Type) -> frozenset[str]:
        """Names of the types that an expression may have; empty: cannot be told."""
        if isinstance(type_, str):
            return frozenset((type_,))
        if type_ is None:
            return frozenset()
        found = set(self.known.get((type_.kind, type_.owner, type_.name), ()))
        if not found and type_.kind == "field":  # a global that a method uses
            found = set(self.known.get(("variable", "", type_.name), ()))
        return frozenset(found)

    @cached_property
    def owners(self) -> dict[str, set[str]]:
        """Structs of the tree that have a field, by its name; ask when nothing is added any more."""
        found: dict[str, set[str]] = defaultdict(set)
        for kind, owner, name in self.known:
            if kind == "field":
                found[name].add(owner)
        return found


def facts_of(declarations: Declarations, unit: Unit, facts: Facts) -> None:
    """Add what the file's declarations say."""
    place = Place(declarations, [declarations.syntax.root])
    for owner, records in declarations.records.items():
        bases = {plain(base).rpartition("::")[2] for base in place.bases(owner)}
        if bases:
            facts.known["base", owner, ""] |= bases
        for record in records:
            body = record.child_by_field_name("body")
            for name, entries in declarations.scope(body).items() if body is not None else ():
                for entry in entries:
                    told = (
                        place.base(entry.type) if entry.kind in ("variable", "function") else None
                    )
                    if isinstance(told, str):
                        facts.known["field", owner, name].add(told)
    for name, entries in declarations.scope(declarations.syntax.root).items():
        for entry in entries:
            if name in unit.index.names and entry.kind in ("variable", "function", "type", "alias"):
                facts.declared.add(name)
            told = place.base(entry.type) if entry.kind in ("variable", "function") else None
            if isinstance(told, str):
                facts.known[entry.kind, "", name].add(told)
