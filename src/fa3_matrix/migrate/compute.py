"""The difference of two models: one `Change` for each thing that source code may trip over.

What changes without touching any old use (an overload more, a member moved into an unnamed union) gives no row.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

from fa3_matrix.migrate._calls import broken_calls, cccl_broken_calls
from fa3_matrix.migrate.behaviour import rows as behaviour_rows
from fa3_matrix.migrate.difference import BrokenCall, Change, Difference
from fa3_matrix.migrate.model import Cccl, CcclName, Function, Model, Record, Signature
from fa3_matrix.migrate.remedies import remedied
from fa3_matrix.migrate.standard import standard_rows

_SUFFIX = re.compile(r"^(\w+?)_v\d+$")
_NO_CCCL = "none"


def compute(old: Model, new: Model, between: Sequence[Model] = ()) -> Difference:
    """What breaks from ``old`` to ``new``.

    Args:
        between: models of releases between the two, oldest first: they date the changes. They must hold the same
            components, or what is absent seems to be gone.
    """
    dated = _dates(old, new, between)
    changes = [
        remedied(dataclasses.replace(change, since=dated(change)), old, new)
        for change in _changes(old, new)
    ]
    changes += behaviour_rows(old.cuda, new.cuda)
    if old.cccl and new.cccl:
        changes += standard_rows(old.cccl.version, new.cccl.version)
    return Difference(
        old.cuda,
        new.cuda,
        old.cccl.version if old.cccl else _NO_CCCL,
        new.cccl.version if new.cccl else _NO_CCCL,
        tuple(sorted(changes, key=lambda change: (change.rule, change.name, change.kind))),
    )


def _dates(old: Model, new: Model, between: Sequence[Model]) -> Callable[[Change], str | None]:
    """First release known to have a change, by its rule and name."""
    if not between:
        return lambda _: None
    seen: dict[tuple[str, str], str] = {}
    for model in (*between, new):
        for change in _changes(old, model):
            seen.setdefault((change.rule, change.name), model.cuda)
    return lambda change: seen[change.rule, change.name]


def _changes(old: Model, new: Model) -> Iterator[Change]:
    parts = (_functions, _records, _types, _constants, _macros, _headers, _deprecations, _libraries)
    yield from chain.from_iterable(part(old, new) for part in parts)
    yield from _compiler(old, new)
    yield from _host_compilers(old, new)
    if old.cccl and new.cccl:
        yield from _cccl(old.cccl, new.cccl)


def _functions(old: Model, new: Model) -> Iterator[Change]:
    for name, function in old.function.items():
        successor = new.function.get(name)
        if successor is None:
            plain = _SUFFIX.match(name)
            versioned = plain is not None and plain[1] in new.function
            yield Change(
                "FN-SUFFIX" if versioned else "FN-REMOVED",
                name,
                "function",
                function.header,
                None,
                signatures_text(function),
                None,
                old_arities=function.arities,
            )
        elif broken := broken_calls(function.signatures, successor.signatures):
            yield Change(
                "FN-SIG",
                name,
                "function",
                successor.header,
                None,
                signatures_text(function),
                signatures_text(successor),
                function.arities,
                successor.arities,
                broken_calls=broken,
            )
        elif _remapped(function, successor, new):
            yield Change(
                "FN-REMAP",
                name,
                "function",
                successor.header,
                None,
                function.symbol,
                successor.symbol,
            )


def _remapped(function: Function, successor: Function, new: Model) -> bool:
    """Whether a name means a newer symbol.

    Not when the symbol has only lost its suffix: the runtime's functions did, and their old symbols are gone.
    """
    if function.symbol == successor.symbol or successor.symbol is None or function.symbol is None:
        return False
    return successor.symbol != function.name or function.symbol in new.function


def signatures_text(function: Function) -> str:
    """``cudaError_t (const void *, size_t, int, cudaStream_t) | ...``: plain overloads before templates."""
    ordered = sorted(function.signatures, key=lambda signature: bool(signature.generic))
    return " | ".join(
        f"{signature.result} ({', '.join(signature.parameters)})" for signature in ordered
    )


def _records(old: Model, new: Model) -> Iterator[Change]:
    for name, record in old.record.items():
        successor = new.record.get(name)
        if successor is None:
            continue
        kept = {field.name for field in successor.fields}
        for field in record.fields:
            if field.name not in kept:
                yield Change(
                    "FIELD-REMOVED",
                    f"{name}::{field.name}",
                    "field",
                    record.header,
                    None,
                    field.type,
                    None,
                )
        # A struct within another is laid out with it.
        if "::" not in name and (moved := _layout(record, successor)):
            yield Change(
                "ABI-LAYOUT",
                name,
                "type",
                successor.header,
                None,
                f"{record.size} bytes, aligned to {record.align}",
                f"{successor.size} bytes, aligned to {successor.align}; {moved}",
            )


def _layout(old: Record, new: Record) -> str | None:
    """What changed in a layout; None: nothing that old objects would read otherwise."""
    places = {field.name: (field.offset, field.type) for field in new.fields}
    moved = [f.name for f in old.fields if f.name in places and places[f.name][0] != f.offset]
    if moved:
        return f"{len(moved)} members moved, the first is {moved[0]}"
    if (old.size, old.align) != (new.size, new.align):
        return "no member moved"
    return None


def _types(old: Model, new: Model) -> Iterator[Change]:
    known = {*new.type, *new.record}
    for name in sorted({*old.type, *old.record}):
        outer = name.rpartition("::")[0]
        if name in known or (outer and outer in old.record) or name.startswith("PFN_"):
            continue
        declared = old.type.get(name) or old.record[name]
        yield Change("TYPE-REMOVED", name, "type", declared.header, None, "declared", None)


def _constants(old: Model, new: Model) -> Iterator[Change]:
    for name, constant in old.enumerator.items():
        successor = new.enumerator.get(name)
        where = constant.header
        if successor is None:
            value = f"{constant.value} of {constant.enum}" if constant.enum else str(constant.value)
            yield Change("ENUM-REMOVED", name, "enumerator", where, None, value, None)
        elif successor.value != constant.value:
            values = str(constant.value), str(successor.value)
            yield Change("ENUM-SENTINEL", name, "enumerator", where, None, *values)


def _macros(old: Model, new: Model) -> Iterator[Change]:
    for name, macro in old.macro.items():
        expansion = macro.expansion or ""
        if any(name in table for table in (new.macro, new.function, new.type, new.enumerator)):
            continue
        if not name.startswith("PFN_"):
            yield Change("MACRO-REMOVED", name, "macro", macro.header, None, expansion, None)
        # Two of 12.4's aliases stand for no type at all; others' types are declared for Windows alone.
        elif expansion in old.type or re.fullmatch(rf"{name}_v\d+", expansion):
            yield Change("ALIAS-REMOVED", name, "type", macro.header, None, expansion, None)


def _headers(old: Model, new: Model) -> Iterator[Change]:
    for header in sorted({*old.headers} - {*new.headers}):
        yield Change("HDR-REMOVED", header, "header", header, None, "include", None)
    if not (old.cccl and new.cccl):
        return
    gone = {*old.cccl.headers} - {*new.cccl.headers, *new.cccl.internal_headers}
    if new.cccl.internal_headers:
        gone |= {*old.cccl.internal_headers} - {*new.cccl.headers, *new.cccl.internal_headers}
    for header in sorted(gone):
        yield Change("HDR-REMOVED", header, "header", header, None, old.cccl.include, None)
    for folder in sorted({*old.cccl.host_folders} - {*new.cccl.host_folders}):
        places = old.cccl.include, new.cccl.include
        yield Change("HDR-MOVED", f"{folder}/", "header", f"{folder}/", None, *places)


def _deprecations(old: Model, new: Model) -> Iterator[Change]:
    kinds: list[tuple[str, Mapping[str, object], Mapping[str, object]]] = [
        ("function", old.function, new.function),
        ("type", old.type, new.type),
        ("enumerator", old.enumerator, new.enumerator),
    ]
    for kind, before, after in kinds:
        for name, declared in before.items():
            message = getattr(after.get(name), "deprecated", None)
            if message is not None and getattr(declared, "deprecated", None) is None:
                where = getattr(after[name], "header", "")
                yield Change("DEPRECATED", name, kind, where, None, None, message)


def _libraries(old: Model, new: Model) -> Iterator[Change]:
    after = {library.name: library.soname for library in new.libraries}
    for library in old.libraries:
        soname = after.get(library.name)
        # A library that is absent may belong to a component that was not at hand.
        if soname is not None and soname != library.soname and "-builtins" not in soname:
            yield Change(
                "SONAME", library.soname, "library", library.name, None, library.soname, soname
            )


def _compiler(old: Model, new: Model) -> Iterator[Change]:
    before, after = old.compiler, new.compiler
    if before is None or after is None:
        return
    for arch in before.real:
        if arch not in after.real:
            virtual = arch.replace("sm_", "compute_")
            yield Change("ARCH-REMOVED", arch, "arch", "nvcc", None, f"{arch}, {virtual}", None)
    defaults = [
        ("ARCH-DEFAULT", "-arch", "arch", before.default_arch, after.default_arch),
        ("PTX-ISA", "PTX .version", "arch", before.ptx_isa, after.ptx_isa),
        (
            "LINK-STUB",
            "-static-global-template-stub",
            "flag",
            *_words(before.internal_stubs, after.internal_stubs),
        ),
        (
            "LINK-HIDDEN",
            "-device-entity-has-hidden-visibility",
            "flag",
            *_words(before.hidden_entities, after.hidden_entities),
        ),
    ]
    for rule, name, kind, was, is_ in defaults:
        if was != is_:
            yield Change(rule, name, kind, "nvcc", None, was, is_)
    long = {option.long for option in after.options}
    short = {option.short: option.long for option in after.options if option.short}
    for option in before.options:
        if option.long not in long:
            # Gone from the help is not gone: nvcc takes it and warns.
            yield Change("DEPRECATED", option.long, "flag", "nvcc", None, option.long, "not listed")
        meaning = short.get(option.short) if option.short else option.long
        if option.short and meaning not in (None, option.long):
            yield Change("FLAG-CHANGED", option.short, "flag", "nvcc", None, option.long, meaning)


def _words(before: bool, after: bool) -> tuple[str, str]:
    return str(before).lower(), str(after).lower()


def _host_compilers(old: Model, new: Model) -> Iterator[Change]:
    for name, accepted in old.host_compilers.items():
        now = new.host_compilers[name]
        lowest = [re.search(r">= (\d+)", text) for text in (accepted, now)]
        raised = lowest[0] and lowest[1] and int(lowest[1][1]) > int(lowest[0][1])
        if raised or (now == "none" and accepted != "none"):
            yield Change("HOSTCC", name, "host-compiler", "crt/host_config.h", None, accepted, now)


def _cccl(old: Cccl, new: Cccl) -> Iterator[Change]:
    yield from _cccl_removed(old, new)
    after = {name.name: name for name in new.names}
    for name in old.names:
        if successor := after.get(name.name):
            yield from _cccl_changes(name, successor, old, new)
    macros = {macro.name for macro in new.macros}
    for macro in old.macros:
        if macro.name not in macros:
            yield Change("MACRO-REMOVED", macro.name, "macro", macro.header, None, "", None)


def _cccl_removed(old: Cccl, new: Cccl) -> Iterator[Change]:
    """Names that are gone; of a class or namespace that is gone as a whole, that alone."""
    before = {name.name: (name, "cccl") for name in old.names}
    if new.internals:
        before |= {name.name: (name, "cccl-internal") for name in old.internals}
    kept = {name.name for name in (*new.names, *new.internals)}
    removed: set[str] = set()
    for key in sorted(before.keys() - kept):
        removed.add(key)
        name, kind = before[key]
        if key.rpartition("::")[0] not in removed:
            yield Change("CCCL-REMOVED", key, kind, name.declared_in[0], None, name.kind, None)


def _cccl_changes(name: CcclName, successor: CcclName, old: Cccl, new: Cccl) -> Iterator[Change]:
    where = successor.declared_in[0]
    if successor.deprecated is not None and name.deprecated is None:
        yield Change("DEPRECATED", name.name, "cccl", where, None, None, successor.deprecated)
    yield from _transitive(name, successor, old, new)
    if name.template_parameters and successor.template_parameters:
        yield from _template(name, successor)
    if name.signatures and successor.signatures:
        yield from _cccl_calls(name, successor)


def _transitive(name: CcclName, successor: CcclName, old: Cccl, new: Cccl) -> Iterator[Change]:
    library, _, rest = name.name.rpartition("::")
    if name.kind == "namespace" or library not in ("thrust", "cub", "cuda::std") or not rest:
        return
    before, after = old.visible_from(name), new.visible_from(successor)
    lost = sorted((before - after) & set(new.headers))
    # The standard's names are in headers that are called after the standard's, except where there was none yet.
    if lost and (library != "cuda::std" or not before & after):
        yield Change(
            "INCLUDE-TRANSITIVE",
            name.name,
            "cccl",
            successor.declared_in[0],
            None,
            f"brought in by {len(before)} public headers",
            f"brought in by {len(after)}",
            lost_from=tuple(lost),
            brought_by=tuple(sorted(after)),
        )


def _template(name: CcclName, successor: CcclName) -> Iterator[Change]:
    assert name.template_parameters
    assert successor.template_parameters
    (few, many), (few_now, many_now) = name.template_parameters, successor.template_parameters
    broken = [
        count
        for count in range(few, (many if many is not None else few) + 1)
        if count < few_now or (many_now is not None and count > many_now)
    ]
    if broken:
        yield Change(
            "CCCL-SIG",
            name.name,
            "cccl-template",
            successor.declared_in[0],
            None,
            f"{few} to {many} template arguments",
            f"{few_now} to {many_now} template arguments",
            broken_calls=tuple(BrokenCall(count, count - 1, None, None) for count in broken),
        )


def _cccl_calls(name: CcclName, successor: CcclName) -> Iterator[Change]:
    if broken := cccl_broken_calls(name.signatures, successor.signatures):
        counts = _arities(name.signatures), _arities(successor.signatures)
        yield Change(
            "CCCL-SIG",
            name.name,
            "cccl",
            successor.declared_in[0],
            None,
            f"{_listed(counts[0])} arguments",
            f"{_listed(counts[1])} arguments",
            *counts,
            broken_calls=broken,
        )


def _arities(signatures: Sequence[Signature]) -> tuple[int, ...]:
    return tuple(sorted({count for signature in signatures for count in signature.arities}))


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
