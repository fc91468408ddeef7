"""Whether a call of a function whose signature changed still compiles: by its number of arguments, and their types."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fa3_matrix.migrate.difference import BrokenCall, Change
from fa3_matrix.migrate.scan.expressions import Place
from fa3_matrix.migrate.scan.syntax import arguments_of

if TYPE_CHECKING:
    from tree_sitter import Node

# Typedefs of the API that hold a number, and those that hold a pointer; other names are structs.
_SCALARS = re.compile(
    r"(?:(?:un)?signed|int|long|short|char|float|double|bool|size_t|u?int\d+_t|cuuint\d+_t|CUdevice|CUdeviceptr"
    r"|enum"
    r"|cuda\w+(?:Kind|Advise|Limit|Status|Flags|Attr|Mode)|CU\w+_(?:enum|advise|flags)|CUdevice_attribute)\b"
)
_HANDLES = re.compile(
    r"(?:cuda\w+_t|CU(?:context|stream|graph|graphNode|event|module|function|kernel|library|memoryPool|array|graphExec)"
    r"|nvrtcProgram)$"
)
_DEVICE_NUMBERS = frozenset(
    ["cudaCpuDeviceId", "cudaInvalidDeviceId", "CU_DEVICE_CPU", "CU_DEVICE_INVALID"]
)
_STREAM = re.compile(r"stream(?:_|s?\[\w+\]|\.get\(\)|\(\))?$", re.IGNORECASE)
_STREAMS = ("cudaStream_t", "CUstream")
_NULLS = frozenset(("NULL", "nullptr", "0"))


@dataclass(frozen=True)
class Verdict:
    """Why a call breaks, and how sure that is."""

    confidence: str
    message: str


def judge(change: Change, call: "Node | None", place: Place) -> Verdict | None:
    """Of ``call``, which calls ``change.name``; None for the call: its name is used otherwise. None: still compiles."""
    if call is None:
        return Verdict("medium", f"{change.name} is used as a pointer, and its type has changed.")
    arguments = arguments_of(call)
    if arguments is None:
        return None
    if any(_is_pack(argument, place) for argument in arguments):
        return Verdict(
            "low", f"{change.name} takes other arguments now; how many this call has is not known."
        )
    count = len(arguments)
    for broken in change.broken_calls:
        if broken.arguments == count:
            return _by_row(change, broken, arguments, place)
    if change.broken_calls:
        return None
    old, new = change.old_arities, change.new_arities
    if count not in old:
        return None
    if count not in new:
        return Verdict(
            "high", f"{change.name} takes {_numbers(new)} arguments now; this call has {count}."
        )
    return _by_signature(change, arguments, place)


def judge_template(change: Change, place: Place) -> Verdict | None:
    """Of the template arguments that the name at ``place`` is given."""
    if len(place.path) < 2 or place.path[-2].type not in ("template_type", "template_function"):
        return None
    given = place.path[-2].child_by_field_name("arguments")
    if given is None or any(_is_pack(argument, place) for argument in given.named_children):
        return None
    count = len(given.named_children)
    if all(broken.arguments != count for broken in change.broken_calls):
        return None
    takes = change.new or "another number of template arguments"
    return Verdict("high", f"{change.name} takes {takes} now; here it is given {count}.")


def _by_row(
    change: Change, broken: BrokenCall, arguments: list["Node"], place: Place
) -> Verdict | None:
    position = broken.position
    if position >= len(arguments) or broken.new is None or broken.old is None:
        what = (
            f"{change.name} needs {broken.new} as argument {position + 1} now, which this call does not have."
            if broken.new is not None and position >= len(arguments)
            else f"{change.name} takes other arguments now; a call with {len(arguments)} does not compile."
        )
        return Verdict("high", what)
    message = f"{change.name} takes {broken.new} as argument {position + 1} now, not {broken.old}."
    argument = arguments[position]
    fits_old, fits_new = fits(argument, broken.old, place), fits(argument, broken.new, place)
    if broken.certain and len(arguments) not in change.new_arities:
        return Verdict("high", message)
    # A migrated call may have as many arguments: their types decide.
    if fits_new and not fits_old:
        return None
    if fits_old and fits_new is False:
        return Verdict("high", message)
    other = _by_signature(change, arguments, place)
    if other is not None and other.confidence == "high":
        return other
    return Verdict("medium" if broken.certain else "low", message)


def _by_signature(change: Change, arguments: list["Node"], place: Place) -> Verdict | None:
    """Of a call that both signatures may take by its number of arguments."""
    old, new = parameters_of(change.old), parameters_of(change.new)
    undecided = None
    for position, argument in enumerate(arguments[: min(len(old), len(new))]):
        if _bare(old[position]) == _bare(new[position]):
            continue
        fits_old = fits(argument, old[position], place)
        fits_new = fits(argument, new[position], place)
        if fits_new and fits_old is False:
            return None
        if fits_old and fits_new is False:
            message = f"{change.name} takes {new[position]} as argument {position + 1} now, not {old[position]}."
            return Verdict("high", message)
        undecided = Verdict("low", f"{change.name} takes other arguments now, and as many.")
    return undecided


def parameters_of(signature: str | None) -> list[str]:
    """Types of the first overload in ``cudaError_t (const void *, size_t)``."""
    match = re.search(r"\((.*)\)", (signature or "").split(" | ")[0])
    parts, depth = [""], 0
    for character in match[1] if match else "":
        depth += {"(": 1, "<": 1, ")": -1, ">": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def fits(argument: "Node", parameter: str, place: Place) -> bool | None:
    """Whether ``argument`` converts to a parameter of type ``parameter``; None: cannot be told."""
    text = place.syntax.text(argument).strip()
    kind = _kind(parameter)
    if argument.type == "initializer_list":
        return kind == "struct"
    if argument.type == "null" or text in _NULLS:
        return kind == "pointer" or (kind == "scalar" and text != "nullptr")
    if (
        argument.type in ("number_literal", "char_literal", "true", "false")
        or text in _DEVICE_NUMBERS
    ):
        return kind == "scalar"
    if argument.type in ("unary_expression", "binary_expression", "sizeof_expression"):
        return kind == "scalar" if kind != "pointer" else None
    if argument.type == "lambda_expression":
        return False
    told = place.type_of(argument)
    if not isinstance(told, str):
        # What the file does not tell of a stream, its name does.
        streams = {"pointer": _bare(parameter) in _STREAMS or None, "scalar": False}
        return streams.get(kind) if _STREAM.search(text) else None
    given = _bare(told)
    if given == _bare(parameter):
        return True
    known = _kind(told) if _SCALARS.match(told) or _HANDLES.match(told) else None
    if argument.type == "pointer_expression" and text.startswith("&"):
        return False if kind == "pointer" else None
    if known == "scalar":
        return kind == "scalar"
    if told.startswith(("cuda", "CU")):
        return False
    return None


def _kind(type_: str) -> str:
    if type_.rstrip().endswith(("*", "]")) or "(*" in type_:
        return "pointer"
    name = _bare(type_)
    if _SCALARS.match(type_.removeprefix("const ").strip()) or _SCALARS.match(name):
        return "scalar"
    return "pointer" if _HANDLES.match(name) else "struct"


def _bare(type_: str) -> str:
    """``cudaGraphNode_t`` of ``const cudaGraphNode_t **``; ``cudaMemLocation`` of ``struct cudaMemLocation``."""
    name = re.sub(r"\b(?:const|struct|enum|volatile|union)\b|[*&\s]+$|\[.*\]", "", type_)
    return " ".join(name.replace("*", " ").replace("&", " ").split())


def _is_pack(argument: "Node", place: Place) -> bool:
    text = place.syntax.text(argument)
    return (
        argument.type == "parameter_pack_expansion" or "__VA_ARGS__" in text or text.endswith("...")
    )


def _numbers(arities: tuple[int, ...]) -> str:
    if not arities:
        return "other"
    return str(arities[0]) if len(arities) == 1 else f"{arities[0]} to {arities[-1]}"
