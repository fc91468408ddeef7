"""Edits after which both toolkits take a call or a field that changed.

Macros stand for what each toolkit takes; they are defined below the includes, so that a call inside another macro's
arguments can be mended as well, where no ``#if`` may stand.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fa3_matrix.migrate.difference import Change
from fa3_matrix.migrate.finding import Edit
from fa3_matrix.migrate.scan.calls import parameters_of
from fa3_matrix.migrate.scan.preprocessor import Truth
from fa3_matrix.migrate.scan.syntax import Syntax, arguments_of
from fa3_matrix.migrate.scan.unit import CUDA_SUFFIXES, Unit

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True)
class _Macro:
    """``parameters``: with their parentheses, or ""; ``helper``: what ``new`` calls, for the new toolkit alone."""

    name: str
    parameters: str
    new: str
    old: str
    helper: str = ""

    @property
    def definition(self) -> str:
        # The driver's header defines CUDA_VERSION, the run-time library's CUDART_VERSION.
        version = "CUDA_VERSION" if self.name.startswith("CU_") else "CUDART_VERSION"
        head = f"#define {self.name}{self.parameters}"
        return (
            f"#ifndef {self.name}\n#if {version} >= 13000\n{self.helper}{head} {self.new}\n"
            f"#else\n{head} {self.old}".rstrip()
            + "\n#endif\n#endif\n"
        )


def _location(prefix: str, struct: str, kind: str, host: str) -> tuple[_Macro, _Macro]:
    """Of a device's number, or of the one that means the host: what cudaMemAdvise takes, and cudaMemPrefetchAsync."""
    location = (
        f"{struct}{{(device) == {host} ? {kind.format('Host', 'HOST')} : {kind.format('Device', 'DEVICE')}, "
        f"(device) == {host} ? 0 : static_cast<int>(device)}}"
    )
    return (
        _Macro(f"{prefix}_LOCATION", "(device)", location, "(device)"),
        _Macro(f"{prefix}_PREFETCH_TO", "(device)", f"{location}, 0u", "(device)"),
    )


_NO_DATA = {
    "cudaGraphEdgeData": _Macro("CUDA_NO_EDGE_DATA", "", "NULL,", ""),
    "CUgraphEdgeData": _Macro("CU_NO_EDGE_DATA", "", "NULL,", ""),
    "CUctxCreateParams": _Macro("CU_NO_CTX_PARAMS", "", "NULL,", ""),
}
_ADVISE, _PREFETCH = _location(
    "CUDA", "cudaMemLocation", "cudaMemLocationType{0}", "cudaCpuDeviceId"
)
_CU_ADVISE, _CU_PREFETCH = _location(
    "CU", "CUmemLocation", "CU_MEM_LOCATION_TYPE_{1}", "CU_DEVICE_CPU"
)
# Function: the position of the device's number, and what stands for it.
_LOCATIONS = {
    "cudaMemAdvise": (3, _ADVISE),
    "cudaMemPrefetchAsync": (2, _PREFETCH),
    "cuMemAdvise": (3, _CU_ADVISE),
    "cuMemPrefetchAsync": (2, _CU_PREFETCH),
}
# The properties do not say which device they are of, but where it is on the bus.
_PROPERTY = _Macro(
    "CUDA_PROPERTY",
    "(properties, field, attribute)",
    "cuda_property(&(properties), attribute)",
    "(properties).field",
    helper="""\
static inline int cuda_property(const struct cudaDeviceProp* properties, enum cudaDeviceAttr attribute) {
  int devices = 0, value = 0;
  cudaGetDeviceCount(&devices);
  for (int device = 0; device < devices; ++device) {
    int domain = -1, bus = -1, slot = -1;
    cudaDeviceGetAttribute(&domain, cudaDevAttrPciDomainId, device);
    cudaDeviceGetAttribute(&bus, cudaDevAttrPciBusId, device);
    cudaDeviceGetAttribute(&slot, cudaDevAttrPciDeviceId, device);
    if (domain == properties->pciDomainID && bus == properties->pciBusID && slot == properties->pciDeviceID) {
      cudaDeviceGetAttribute(&value, attribute, device);
    }
  }
  return value;
}
""",
)
# What it says can be launched has been removed.
_COOPERATIVE = _Macro(
    "CUDA_COOPERATIVE_MULTI_DEVICE_LAUNCH",
    "(properties)",
    "0",
    "(properties).cooperativeMultiDeviceLaunch",
)
_ATTRIBUTES = {
    "clockRate": "cudaDevAttrClockRate",
    "computeMode": "cudaDevAttrComputeMode",
    "kernelExecTimeoutEnabled": "cudaDevAttrKernelExecTimeout",
    "memoryClockRate": "cudaDevAttrMemoryClockRate",
    "singleToDoublePrecisionPerfRatio": "cudaDevAttrSingleToDoublePrecisionPerfRatio",
}


_MACROS = tuple(
    macro.name for macro in (*_NO_DATA.values(), *(location for _, location in _LOCATIONS.values()))
)


def is_rewritten(call: "Node", syntax: Syntax) -> bool:
    """Whether a call has been through this: how many arguments it has shows after preprocessing alone."""
    return any(name in syntax.text(call) for name in _MACROS)


def of_call(unit: Unit, change: Change, call: "Node", syntax: Syntax) -> tuple[Edit, ...]:
    """Of a call that the new toolkit refuses; none where no form is known that both take."""
    arguments = arguments_of(call) or []
    spans = [syntax.span(argument) for argument in arguments]
    if change.name in _LOCATIONS:
        position, macro = _LOCATIONS[change.name]
        if position >= len(spans) or unit.file.endswith(".c"):
            return ()
        start, end = spans[position]
        return _edits(unit, macro, start, end, f"{macro.name}({unit.source.text[start:end]})")
    inserted = _inserted(change)
    if inserted is None or len(arguments) != len(parameters_of(change.old)):
        return ()
    position, macro = inserted
    start = spans[position][0]
    return _edits(unit, macro, start, start, f"{macro.name} ")


def _inserted(change: Change) -> tuple[int, _Macro] | None:
    """Where the new signature has one parameter more, which may be null."""
    old, new = parameters_of(change.old), parameters_of(change.new)
    for position, parameter in enumerate(new):
        if new[:position] + new[position + 1 :] == old:
            for type_, macro in _NO_DATA.items():
                if type_ in parameter.split():
                    return position, macro
    return None


def of_field(unit: Unit, change: Change, node: "Node", syntax: Syntax) -> tuple[Edit, ...]:
    """Of a field of cudaDeviceProp that is read in the expression ``node``."""
    record, _, field = change.name.rpartition("::")
    owner = node.child_by_field_name("argument")
    is_known = field in (*_ATTRIBUTES, "deviceOverlap", "cooperativeMultiDeviceLaunch")
    if record != "cudaDeviceProp" or not is_known or owner is None:
        return ()
    if node.type != "field_expression" or _is_written(node):
        return ()
    text = syntax.text
    points = text(node)[len(text(owner)) :].lstrip().startswith("->")
    properties = f"*{text(owner)}" if points else text(owner)
    start, end = syntax.span(node)
    if field == "deviceOverlap":  # has been whether there is a copy engine
        edit = f"(({properties}).asyncEngineCount > 0)"
        return (unit.source.edit(start, end, edit),) if _is_one_line(unit, start, end) else ()
    if field == "cooperativeMultiDeviceLaunch":
        return _edits(unit, _COOPERATIVE, start, end, f"{_COOPERATIVE.name}({properties})")
    edit = f"{_PROPERTY.name}({properties}, {field}, {_ATTRIBUTES[field]})"
    return _edits(unit, _PROPERTY, start, end, edit)


# Function objects whose remedy is another one, and the header that has it in both toolkits.
_OBJECTS = {
    **dict.fromkeys(
        ("cub::Sum", "cub::Difference", "cub::Division", "cub::Equality", "cub::Inequality"),
        "cuda/std/functional",
    ),
    **dict.fromkeys(("cub::Max", "cub::Min"), "thrust/functional.h"),
    "thrust::identity": "cuda/std/functional",
}


def of_object(
    unit: Unit, change: Change, start: int, leaf: "Node", syntax: Syntax
) -> tuple[Edit, ...]:
    """Of a function object named at ``start``, with its qualifiers, up to ``leaf``; template arguments go with it."""
    header, remedy = _OBJECTS.get(change.name), change.remedy
    below = _below_includes(unit, start)
    if header is None or remedy is None or remedy.both is None or below is None:
        return ()
    wrapper = leaf.parent
    is_template = wrapper is not None and wrapper.type in ("template_type", "template_function")
    end = syntax.span(wrapper if wrapper is not None and is_template else leaf)[1]
    if unit.source.text.startswith("::", end) or not _is_one_line(unit, start, end):
        return ()
    include = f"#include <{header}>{_newline(unit, start)}"
    return (unit.source.edit(below, below, include), unit.source.edit(start, end, remedy.both))


def _is_written(node: "Node") -> bool:
    parent = node.parent
    if parent is None:
        return False
    if parent.type == "assignment_expression":
        return parent.child_by_field_name("left") == node
    return parent.type in ("update_expression", "pointer_expression")


def _edits(unit: Unit, macro: _Macro, start: int, end: int, text: str) -> tuple[Edit, ...]:
    """The macro in place of what stands from ``start`` to ``end``, and its definition."""
    below = _below_includes(unit, start)
    if below is None or not _is_one_line(unit, start, end):
        return ()
    definition = macro.definition.replace("\n", _newline(unit, start))
    return (unit.source.edit(below, below, definition), unit.source.edit(start, end, text))


def _newline(unit: Unit, before: int) -> str:
    return "\r\n" if "\r\n" in unit.source.text[:before] else "\n"


def _is_one_line(unit: Unit, start: int, end: int) -> bool:
    return "\n" not in unit.source.text[start:end]


def _below_includes(unit: Unit, before: int) -> int | None:
    """The start of the line after the last include that is always read, and that comes before ``before``."""
    text = unit.source.text
    for directive in reversed(unit.guards.directives):
        is_read = unit.guards.at(directive.start).new is Truth.TRUE
        if directive.word == "include" and directive.end < before and is_read:
            line = text.find("\n", directive.start) + 1
            return line if 0 < line <= before else None
    # nvcc reads the run-time library's header ahead of a file.
    return 0 if unit.file.endswith(CUDA_SUFFIXES) else None
