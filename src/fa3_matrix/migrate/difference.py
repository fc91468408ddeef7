"""The difference of two toolkits, as data: what the scanner looks for, and what a page shows."""

from dataclasses import dataclass
from functools import cached_property

from fa3_matrix.migrate.rules import Proof


@dataclass(frozen=True)
class Remedy:
    """What to write instead. ``both``: a form that both toolkits take; ``guarded``: with #if, where there is none.

    ``replacement``: of the name alone, where that is all it takes (for ``--fix``).
    """

    text: str
    both: str | None = None
    guarded: str | None = None
    replacement: str | None = None


@dataclass(frozen=True)
class BrokenCall:
    """Calls of a changed function that no longer compile, told by their number of arguments.

    Args:
        arguments: how many arguments the call has.
        position: of the first argument (from 0) that no longer fits; equal to ``arguments`` where one is missing.
        old, new: types of that argument before and now; None: the function takes none there.
        certain: every old call with so many arguments breaks. False: another old overload took as many and still
            fits, so the argument's type decides (``cudaMemPrefetchAsync(p, n, <int or cudaMemLocation>, x)``).
    """

    arguments: int
    position: int
    old: str | None
    new: str | None
    certain: bool = True


@dataclass(frozen=True)
class Change:
    """One row of the difference.

    Args:
        rule: id in ``fa3_matrix.migrate.rules.RULES``.
        name: as source code spells it: ``cudaThreadExit``, ``cudaDeviceProp::clockRate``, ``thrust/optional.h``,
            ``sm_70``, ``cub::Max``.
        kind: "function" | "field" | "type" | "enumerator" | "macro" | "header" | "cccl" | "cccl-template" |
            "cccl-internal" (a name that CCCL keeps to itself) | "arch" | "flag" | "library" | "module" | "wheel" |
            "behaviour" | "host-compiler" | "image".
        where: the header (or library) that declares it, relative to its include root.
        since: the first toolkit release known to have the change ("13.0"), or None where only the ends are known.
        old, new: how it was and is (signature, value, size); None: not there.
        old_arities, new_arities: numbers of arguments that calls may have, by kind "function"; empty elsewhere.
        remedy: what to write; None where nothing is known.
        proof: what the row rests on.
        url: official page, where there is one.
        broken_calls: of a changed function: which of its old calls break; a call of any other number of arguments
            compiles. By kind "cccl-template", of a class template: numbers of template arguments that are refused.
        lost_from: of rule INCLUDE-TRANSITIVE: public headers that brought the name in and do not now.
        brought_by: of rule INCLUDE-TRANSITIVE: public headers that bring the name in now; one must be included.
    """

    rule: str
    name: str
    kind: str
    where: str
    since: str | None
    old: str | None
    new: str | None
    old_arities: tuple[int, ...] = ()
    new_arities: tuple[int, ...] = ()
    remedy: Remedy | None = None
    proof: Proof = Proof.HEADERS
    url: str | None = None
    broken_calls: tuple[BrokenCall, ...] = ()
    lost_from: tuple[str, ...] = ()
    brought_by: tuple[str, ...] = ()

    @property
    def successor(self) -> str | None:
        """The new name of what moved."""
        return (self.remedy.replacement if self.remedy else None) or self.new


@dataclass(frozen=True)
class Difference:
    """From toolkit ``old`` to ``new`` ("12.4", "13.3"); CCCL's versions apart, since they are shipped apart."""

    old: str
    new: str
    old_cccl: str
    new_cccl: str
    changes: tuple[Change, ...]

    @cached_property
    def by_rule(self) -> dict[str, dict[str, Change]]:
        """The changes of a rule, by name; the first of each."""
        found: dict[str, dict[str, Change]] = {}
        for change in self.changes:
            found.setdefault(change.rule, {}).setdefault(change.name, change)
        return found

    def named(self, name: str) -> tuple[Change, ...]:
        """The changes of one name."""
        return tuple(change for change in self.changes if change.name == name)
