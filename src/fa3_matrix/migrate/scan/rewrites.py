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
# Field: what defines its replacement, if anything, and that, for an expression that gives the properties.
_FIELDS: dict[str, tuple[_Macro | None, str]] = {
    **{
        field: (_PROPERTY, f"CUDA_PROPERTY({{}}, {field}, cudaDevAttr{attribute})")
        for field, attribute in (
            ("clockRate", "ClockRate"),
            ("computeMode", "ComputeMode"),
            ("kernelExecTimeoutEnabled", "KernelExecTimeout"),
            ("memoryClockRate", "MemoryClockRate"),
            ("singleToDoublePrecisionPerfRatio", "SingleToDoublePrecisionPerfRatio"),
        )
    },
    "cooperativeMultiDeviceLaunch": (
        _COOPERATIVE,
        "CUDA_COOPERATIVE_MULTI_DEVICE_LAUNCH({})",
    ),
    # It has been whether there is a copy engine.
    "deviceOverlap": (None, "(({}).asyncEngineCount > 0)"),
}
# Function objects whose remedy is another one, and the header that has it in both toolkits.
_OBJECTS = {
    **dict.fromkeys(
        ("cub::Sum", "cub::Difference", "cub::Division", "cub::Equality", "cub::Inequality"),
        "cuda/std/functional",
    ),
    **dict.fromkeys(("cub::Max", "cub::Min"), "thrust/functional.h"),
    "thrust::identity": "cuda/std/functional",
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
        form = f"{macro.name}({unit.source.text[start:end]})"
        return _edits(unit, macro.definition, start, end, form)
    inserted = _inserted(change)
    if inserted is None or len(arguments) != len(parameters_of(change.old)):
        return ()
    position, macro = inserted
    start = spans[position][0]
    return _edits(unit, macro.definition, start, start, f"{macro.name} ")


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
    if record != "cudaDeviceProp" or field not in _FIELDS or owner is None:
        return ()
    if node.type != "field_expression" or _is_written(node):
        return ()
    text = syntax.text
    points = text(node)[len(text(owner)) :].lstrip().startswith("->")
    properties = f"*{text(owner)}" if points else text(owner)
    macro, form = _FIELDS[field]
    definition = macro.definition if macro else ""
    return _edits(unit, definition, *syntax.span(node), form.format(properties))


def of_object(
    unit: Unit, change: Change, start: int, leaf: "Node", syntax: Syntax
) -> tuple[Edit, ...]:
    """Of a function object named at ``start``, with its qualifiers, up to ``leaf``; template arguments go with it."""
    header, remedy = _OBJECTS.get(change.name), change.remedy
    if header is None or remedy is None or remedy.both is None:
        return ()
    wrapper = leaf.parent
    if wrapper is not None and wrapper.type in ("template_type", "template_function"):
        leaf = wrapper
    end = syntax.span(leaf)[1]
    if unit.source.text.startswith("::", end):
        return ()
    return _edits(unit, f"#include <{header}>\n", start, end, remedy.both)


def _is_written(node: "Node") -> bool:
    parent = node.parent
    if parent is None:
        return False
    if parent.type == "assignment_expression":
        return parent.child_by_field_name("left") == node
    return parent.type in ("update_expression", "pointer_expression")


def _edits(unit: Unit, definition: str, start: int, end: int, text: str) -> tuple[Edit, ...]:
    """``text`` in place of what stands from ``start`` to ``end``, and the lines that it needs below the includes."""
    source = unit.source
    if not source.is_one_line(start, end):
        return ()
    replaced = source.edit(start, end, text)
    if not definition:
        return (replaced,)
    below = _below_includes(unit, start)
    if below is None:
        return ()
    lines = definition.replace("\n", source.newline_of(max(below - 1, 0)))
    return (source.edit(below, below, lines), replaced)


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
