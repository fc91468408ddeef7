"""Which calls of old overloads none of the new ones takes."""

import dataclasses
import re
from collections.abc import Sequence

from fa3_matrix.migrate.difference import BrokenCall
from fa3_matrix.migrate.model import Signature


def broken_calls(old: Sequence[Signature], new: Sequence[Signature]) -> tuple[BrokenCall, ...]:
    """Which calls of ``old`` overloads have none in ``new``: by number and types of arguments."""
    found = []
    for count in sorted({count for signature in old for count in signature.arities}):
        callable_ = [signature for signature in old if count in signature.arities]
        misfits = [misfit for one in callable_ if (misfit := _misfit(one, new, count)) is not None]
        if misfits:
            certain = len(misfits) == len(callable_)
            found.append(dataclasses.replace(misfits[0], certain=certain))
    return tuple(found)


def _misfit(old: Signature, new: Sequence[Signature], count: int) -> BrokenCall | None:
    """The first argument that fits no overload; None: the call compiles as before."""
    furthest: tuple[int, Signature] | None = None
    for signature in new:
        agreed = _agreement(old, signature, count)
        takes_count = count in signature.arities or (
            signature.variadic and count >= signature.required
        )
        if agreed == count and takes_count:
            return None
        if furthest is None or agreed > furthest[0]:
            furthest = (agreed, signature)
    position, closest = furthest or (0, Signature("", (), 0))
    return BrokenCall(
        count,
        position,
        _at(old.parameters, position) if position < count else None,
        _at(closest.parameters, position),
    )


def _agreement(old: Signature, new: Signature, count: int) -> int:
    """How many leading arguments fit both."""
    for position in range(count):
        if position >= len(new.parameters):
            return count if new.variadic else position
        if position in old.generic or position in new.generic:
            continue
        if not _converts(old.parameters[position], new.parameters[position]):
            return position
    return count


def _converts(old: str, new: str) -> bool:
    """Whether what a parameter of type ``old`` was given also fits one of type ``new``."""
    old, new = (re.sub(r"\s+", " ", type_).strip() for type_ in (old, new))
    # A pointer to const takes what a pointer takes, and `void *` what any does.
    if new.startswith("const ") and not old.startswith("const ") and new.endswith("*"):
        new = new.removeprefix("const ")
    return old == new or (new == "void *" and old.endswith("*"))


def _at(parameters: Sequence[str], position: int) -> str | None:
    return parameters[position] if position < len(parameters) else None


def cccl_broken_calls(old: Sequence[Signature], new: Sequence[Signature]) -> tuple[BrokenCall, ...]:
    """Of templates, whose types cannot be compared: by numbers of arguments, and by a last ``bool``."""
    if any(signature.variadic for signature in (*old, *new)):
        return ()
    before = {count for signature in old for count in signature.arities}
    after = {count for signature in new for count in signature.arities}
    broken = [BrokenCall(count, count, None, None) for count in before - after]
    for count in before & after - {0}:
        # debug_synchronous was the last parameter of each of the device algorithms' overloads that are gone.
        switched = [
            signature for signature in old if signature.parameters[count - 1 :] == ("bool",)
        ]
        last = {signature.parameters[count - 1] for signature in new if count in signature.arities}
        if switched and "bool" not in last:
            certain = all(signature in switched for signature in old if count in signature.arities)
            broken.append(BrokenCall(count, count - 1, "bool", min(last), certain))
    return tuple(sorted(broken, key=lambda call: call.arguments))
