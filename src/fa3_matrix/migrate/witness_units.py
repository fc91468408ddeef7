"""What proves a difference: a line of C++ for each change, which the old toolkit takes and the new one refuses.

Lines of one kind share a translation unit, since compilers say which line they refuse. Names that were kept are lines
as well: the new toolkit must take them.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence

from fa3_matrix.migrate.difference import Change, Difference
from fa3_matrix.migrate.model import Function, Model, Record, Signature
from fa3_matrix.migrate.rules import Proof

# Interop headers need other people's; the tile compiler's are for another compiler.
_NOT_INCLUDED = re.compile(r"EGL|GL|gl_interop|VDPAU|vdpau|cuda_tile|\.hpp$|cudart_platform|nvPTX")

Key = tuple[str, str]  # rule and name of a change


@dataclasses.dataclass(frozen=True)
class Witness:
    """One line. ``change``: what it proves; None: a use that must go on compiling."""

    text: str
    change: Key | None


@dataclasses.dataclass(frozen=True)
class Unit:
    """A translation unit.

    Args:
        name: tells units apart in messages.
        command: key of `_COMMANDS`: which compiler, and how far it goes.
        head: what comes before the witnesses; no toolkit may refuse it.
        options: more of the command line.
    """

    name: str
    command: str
    head: str
    witnesses: tuple[Witness, ...]
    options: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The whole text: the head, and the witnesses, each from a line of its own."""
        return self.head + "".join(f"{witness.text}\n" for witness in self.witnesses)

    def refused(self, lines: Iterable[int]) -> set[int]:
        """Indices of the witnesses that stand on these lines (from 1); -1: a line of the head."""
        owners = [-1] * self.head.count("\n")
        for index, witness in enumerate(self.witnesses):
            owners += [index] * (witness.text.count("\n") + 1)
        return {owners[line - 1] for line in lines}


def units(
    difference: Difference, old: Model, new: Model, absent: frozenset[str] = frozenset()
) -> tuple[Unit, ...]:
    """Everything that can be shown by compiling a line.

    Args:
        absent: headers that are not at hand, of components that are shipped apart; nothing is said of them.
    """
    difference = dataclasses.replace(
        difference,
        changes=tuple(change for change in difference.changes if change.where not in absent),
    )
    return tuple(
        unit
        for unit in (
            _interface(difference, old, new, absent),
            _aliases(difference),
            _deprecated(difference),
            _preprocessor(difference, old, new, absent),
            _moved_headers(difference),
            _cccl(difference, old, new),
            *_transitive(difference),
            *_architectures(difference),
        )
        if unit.witnesses
    )


def _of(difference: Difference, *rules: str) -> Iterator[Change]:
    return (
        change
        for change in difference.changes
        if change.rule in rules and change.proof is not Proof.DOCUMENTATION
    )


def _key(change: Change) -> Key:
    return change.rule, change.name


def _line(number: int, text: str) -> str:
    return f"namespace witness_{number} {{ {text} }}"


def _numbered(lines: Iterable[tuple[str, Key | None]]) -> tuple[Witness, ...]:
    return tuple(Witness(_line(number, text), key) for number, (text, key) in enumerate(lines))


def _interface(difference: Difference, old: Model, new: Model, absent: frozenset[str]) -> Unit:
    headers = _shared(old, new, absent)
    head = _INTERFACE + _included(headers)
    removed = {change.name for change in difference.changes if change.rule == "FN-REMOVED"}
    kept = _kept(old, new, absent, removed)
    lines = [*_changed(difference, old, new), *((text, None) for text in kept)]
    return Unit("interface", "nvcc", head, _numbered(lines))


_INTERFACE = """#include <cuda.h>
#include <cstddef>
#include <utility>
#define TEXT_OF(...) #__VA_ARGS__
#define TEXT(...) TEXT_OF(__VA_ARGS__)
"""


def _shared(old: Model, new: Model, absent: frozenset[str]) -> list[str]:
    """Public headers that both toolkits have."""
    return [header for header in old.headers if header in new.headers and header not in absent]


def _included(headers: Iterable[str]) -> str:
    """Includes of what the toolkit has."""
    return "".join(
        f"#if __has_include(<{header}>)\n#include <{header}>\n#endif\n"
        for header in headers
        if not _NOT_INCLUDED.search(header)
    )


def _changed(difference: Difference, old: Model, new: Model) -> Iterator[tuple[str, Key | None]]:
    names = ("FN-REMOVED", "FN-SUFFIX", "TYPE-REMOVED", "ENUM-REMOVED")
    for change in _of(difference, *names):
        if change.name in old.function and change.name in new.function:
            continue  # declared still, for architectures that are gone
        yield f"using {_global(change.name)};", _key(change)
    for change in _of(difference, "FIELD-REMOVED"):
        yield f"using type = decltype({change.name});", _key(change)
    for change in _of(difference, "FN-REMAP"):
        yield (
            f'static_assert(sizeof(TEXT({change.name})) == sizeof("{change.old}"), "");',
            _key(change),
        )
    for change in _of(difference, "ENUM-SENTINEL"):
        if not _NOT_INCLUDED.search(change.where):
            yield f'static_assert({change.name} == {change.old}, "");', _key(change)
    for change in _of(difference, "ABI-LAYOUT"):
        yield _layout(old.record[change.name], new.record[change.name]), _key(change)
    for change in _of(difference, "FN-SIG"):
        yield from _calls(change, old.function[change.name])


def _global(name: str) -> str:
    return name if "::" in name else f"::{name}"


def _layout(old: Record, new: Record) -> str:
    kept = {field.name for field in new.fields}
    facts = [f"sizeof({old.name}) == {old.size}", f"alignof({old.name}) == {old.align}"]
    facts += [
        f"offsetof({old.name}, {field.name}) == {field.offset}"
        for field in old.fields
        if field.name in kept
    ]
    return f'static_assert({" && ".join(facts)}, "");'


def _calls(change: Change, function: Function) -> Iterator[tuple[str, Key | None]]:
    """A call by each number of arguments of each overload."""
    broken = {call.arguments for call in change.broken_calls}
    plain = [signature for signature in function.signatures if not signature.generic]
    for signature in plain:
        for count in signature.arities:
            yield _call(change.name, signature, count), _key(change) if count in broken else None


def _call(name: str, signature: Signature, count: int) -> str:
    arguments = ", ".join(f"std::declval<{type_}>()" for type_ in signature.parameters[:count])
    return f"using type = decltype({_global(name)}({arguments}));"


def _kept(old: Model, new: Model, absent: frozenset[str], removed: set[str]) -> Iterator[str]:
    """Names that both have, and members of structs that have lost none of those."""
    tables = (old.function, new.function), (old.type, new.type), (old.enumerator, new.enumerator)
    for before, after in tables:
        for name, declared in before.items():
            # A scoped enumerator cannot be named by a using declaration in C++17.
            nameable = "::" not in name or name.startswith("cooperative_groups::")
            kept_name = name in after and name not in old.macro and name not in removed
            if nameable and kept_name and not _elsewhere(absent, declared, after[name]):
                yield f"using {_global(name)};"
    for name, record in old.record.items():
        successor = new.record.get(name)
        if successor is not None and "::" not in name and not _elsewhere(absent, record, successor):
            kept = {field.name for field in successor.fields}
            yield from (
                f"using type = decltype({name}::{field.name});"
                for field in record.fields
                if field.name in kept
            )


def _elsewhere(absent: frozenset[str], *declared: object) -> bool:
    headers = [getattr(one, "header", "") for one in declared]
    return any(header in absent or _NOT_INCLUDED.search(header) for header in headers)


def _aliases(difference: Difference) -> Unit:
    changes = [c for c in _of(difference, "ALIAS-REMOVED") if not _NOT_INCLUDED.search(c.where)]
    headers = sorted({change.where for change in changes})
    return Unit(
        "aliases",
        "g++",
        "#include <cuda.h>\n" + _included(headers),
        _numbered((f"using type = {change.name};", _key(change)) for change in changes),
    )


def _deprecated(difference: Difference) -> Unit:
    lines = []
    for change in _of(difference, "DEPRECATED"):
        if change.kind == "function":
            lines.append((f"auto *const pointer = &{_global(change.name)};", _key(change)))
        elif change.kind == "type":
            lines.append((f"extern {_global(change.name)} object;", _key(change)))
    head = "#include <cuda_runtime_api.h>\n#include <vector_types.h>\n"
    return Unit("deprecated", "g++ -Wdeprecated", head, _numbered(lines))


def _preprocessor(difference: Difference, old: Model, new: Model, absent: frozenset[str]) -> Unit:
    """Macros and headers: those that are gone, and headers that are still there."""
    headers = _shared(old, new, absent)
    cccl = (*old.cccl.headers, *old.cccl.internal_headers) if old.cccl else ()
    public = old.cccl.headers if old.cccl else ()
    head = "#include <cuda.h>\n" + _included([*headers, *public])
    gone = [(_present(f"defined({c.name})"), _key(c)) for c in _of(difference, "MACRO-REMOVED")]
    removed = {change.name: _key(change) for change in _of(difference, "HDR-REMOVED")}
    both: list[tuple[str, Key | None]] = [
        (_present(f"__has_include(<{header}>)"), removed.get(header))
        for header in (*old.headers, *cccl)
        if header not in absent
    ]
    witnesses = tuple(Witness(text, key) for text, key in [*gone, *both])
    return Unit("macros and headers", "nvcc -E", head, witnesses)


def _present(condition: str) -> str:
    return f"#if !({condition})\n#error it is gone\n#endif"


def _moved_headers(difference: Difference) -> Unit:
    """What a host compiler no longer finds in the toolkit's include folder."""
    headers = {"cub/": "cub/version.cuh", "cuda/": "cuda/version"}
    return Unit(
        "moved headers",
        "g++ -E",
        "",
        tuple(
            Witness(
                _present(f"__has_include(<{headers.get(c.name, 'thrust/version.h')}>)"), _key(c)
            )
            for c in _of(difference, "HDR-MOVED")
        ),
    )


def _cccl(difference: Difference, old: Model, new: Model) -> Unit:
    """Names of CCCL that are gone, and those that are still there."""
    if old.cccl is None or new.cccl is None:
        return Unit("CCCL", "nvcc", "", ())
    head = "#include <utility>\n" + _included(sorted({*old.cccl.headers, *new.cccl.headers}))
    gone = {change.name: _key(change) for change in _of(difference, "CCCL-REMOVED")}
    kept = {name.name for name in new.cccl.names}
    names = (*old.cccl.names, *old.cccl.internals)
    types = {name.name for name in names if name.kind == "type"}
    lines: list[tuple[str, Key | None]] = [
        (f"namespace taken = {name.name};", gone[name.name])
        for name in names
        if name.kind == "namespace" and name.name in gone
    ]
    lines += [
        (f"using {name.name};", gone.get(name.name))
        for name in names
        # A member is named through its class.
        if name.kind != "namespace"
        and name.name.rpartition("::")[0] not in types
        and (name.name in gone or name.name in kept)
    ]
    known = {name.name: name for name in old.cccl.names}
    for change in _of(difference, "CCCL-SIG"):
        owner = known.get(change.name.rpartition("::")[0])
        # A member of a class template is not called without its arguments.
        if change.kind == "cccl" and (owner is None or owner.template_parameters is None):
            lines += _cccl_calls(change, known[change.name].signatures)
        elif change.name in _SPECIALISED:
            lines.append(
                (f"using type = {change.name}<{_SPECIALISED[change.name]}>;", _key(change))
            )
    return Unit("CCCL", "nvcc", head, _numbered(lines))


# As many arguments as the old templates take; the last is LEGACY_PTX_ARCH.
_SPECIALISED = {
    "cub::BlockAdjacentDifference": "int, 128, 1, 1, 800",
    "cub::BlockDiscontinuity": "int, 128, 1, 1, 800",
    "cub::BlockExchange": "int, 128, 4, false, 1, 1, 800",
    "cub::BlockHistogram": "int, 128, 4, 256, cub::BLOCK_HISTO_SORT, 1, 1, 800",
    "cub::BlockLoad": "int, 128, 4, cub::BLOCK_LOAD_DIRECT, 1, 1, 800",
    "cub::BlockReduce": "int, 128, cub::BLOCK_REDUCE_WARP_REDUCTIONS, 1, 1, 800",
    "cub::BlockScan": "int, 128, cub::BLOCK_SCAN_RAKING, 1, 1, 800",
    "cub::BlockShuffle": "int, 128, 1, 1, 800",
    "cub::BlockStore": "int, 128, 4, cub::BLOCK_STORE_DIRECT, 1, 1, 800",
    "cub::WarpLoad": "int, 4, cub::WARP_LOAD_DIRECT, 32, 800",
    "cub::WarpReduce": "int, 32, 800",
    "cub::WarpScan": "int, 32, 800",
    "cub::WarpStore": "int, 4, cub::WARP_STORE_DIRECT, 32, 800",
}


def _cccl_calls(
    change: Change, signatures: Sequence[Signature]
) -> Iterator[tuple[str, Key | None]]:
    for call in change.broken_calls:
        for signature in signatures:
            whole = len(signature.parameters) == call.arguments
            # Channels cannot be deduced: those functions take them as template arguments.
            deduced = not any("NUM_" in type_ for type_ in signature.parameters)
            if whole and deduced and (call.old is None or signature.parameters[-1] == call.old):
                arguments = ", ".join(
                    f"std::declval<{_instance(type_) if position in signature.generic else type_}>()"
                    for position, type_ in enumerate(signature.parameters)
                )
                yield f"using type = decltype({change.name}({arguments}));", _key(change)
                break


def _instance(type_: str) -> str:
    """A type that a template parameter's may be, by CUB's way to name them."""
    type_ = re.sub(r"\b\w*Iterator\w*\b", "int *", type_)
    type_ = re.sub(r"\b(?:[A-Z]\w*(?:T|Op)|T)\b", "int", type_)
    return re.sub(r"\bDoubleBuffer\b", "cub::DoubleBuffer", type_)


# Where the name alone is declared elsewhere too, and what it stands for is not.
_USES = {
    "std::array": "std::array<int, 3> numbers;",
    "std::find": "int *found(int *from, int *to) { return std::find(from, to, 3); }",
}


def _transitive(difference: Difference) -> Iterator[Unit]:
    """Few headers that together miss each name once."""
    open_names = {change.name: change for change in _of(difference, "INCLUDE-TRANSITIVE")}
    losses: dict[str, set[str]] = {}
    for name, change in open_names.items():
        for header in change.lost_from:
            losses.setdefault(header, set()).add(name)
    while losses:
        header = max(sorted(losses), key=lambda candidate: len(losses[candidate]))
        missed = sorted(losses.pop(header))
        losses = {other: rest for other, names in losses.items() if (rest := names - {*missed})}
        yield Unit(
            f"names lost from {header}",
            "nvcc",
            f"#include <{header}>\n",
            _numbered(
                (_USES.get(name, f"using {name};"), _key(open_names[name])) for name in missed
            ),
        )


def _architectures(difference: Difference) -> Iterator[Unit]:
    """nvcc refuses the whole command, so that each target is a unit."""
    for change in _of(difference, "ARCH-REMOVED"):
        witness = Witness("", _key(change))
        yield Unit(change.name, "nvcc -arch", "", (witness,), (f"-arch={change.name}",))
