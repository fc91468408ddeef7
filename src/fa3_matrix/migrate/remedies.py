"""What to write instead: hand-written, by name, and derived where the headers tell.

Every ``both`` form of this module is compiled by both toolkits (tests/migrate/test_witness.py); the names that a
caller has in hand are those of `PREAMBLE`.
"""

import dataclasses
import re

from fa3_matrix.migrate.difference import Change, Remedy
from fa3_matrix.migrate.model import Model

RELEASE_NOTES = "https://docs.nvidia.com/cuda/archive/13.0.0/cuda-toolkit-release-notes/index.html"
SIGNATURES = (
    "https://developer.nvidia.com/docs/drive/drive-os/7.2.5/public/drive-os-migration-guide/"
    "cudart_changes.html"
)
CCCL_GUIDE = "https://nvidia.github.io/cccl/cccl/3.0_migration_guide.html"
VISIBILITY = (
    "https://developer.nvidia.com/blog/"
    "cuda-c-compiler-updates-impacting-elf-visibility-and-linkage/"
)
_PAGES = {
    "FN-SIG": SIGNATURES,
    "FN-REMAP": SIGNATURES,
    "HDR-MOVED": CCCL_GUIDE,
    "LINK-STUB": VISIBILITY,
    "LINK-HIDDEN": VISIBILITY,
    "ARCH-REMOVED": RELEASE_NOTES,
}
_CCCL_RULES = ("CCCL-REMOVED", "CCCL-SIG", "INCLUDE-TRANSITIVE")

# What `both` forms take for granted.
PREAMBLE = """
int device = 0, value = 0; size_t bytes = 0; void *pointer = nullptr; CUdeviceptr address = 0;
cudaStream_t stream = nullptr; cudaMemLocation location{}; CUmemLocation where{}; CUstream queue = nullptr;
cudaDeviceProp properties{}; cudaFuncCache cache{}; cudaLimit limit{}; nvrtcProgram program{}; char *text = nullptr;
"""

# Field of cudaDeviceProp -> expression that both toolkits take.
_FIELDS = {
    name: f"cudaDeviceGetAttribute(&value, {attribute}, device)"
    for name, attribute in (
        ("clockRate", "cudaDevAttrClockRate"),
        ("memoryClockRate", "cudaDevAttrMemoryClockRate"),
        ("computeMode", "cudaDevAttrComputeMode"),
        ("kernelExecTimeoutEnabled", "cudaDevAttrKernelExecTimeout"),
        ("singleToDoublePrecisionPerfRatio", "cudaDevAttrSingleToDoublePrecisionPerfRatio"),
    )
} | {
    "deviceOverlap": "value = properties.asyncEngineCount > 0",
    "maxTexture1DLinear": (
        "static cudaChannelFormatDesc format = cudaCreateChannelDesc<float>(); "
        "cudaDeviceGetTexture1DLinearMaxWidth(&bytes, &format, device)"
    ),
}
_NO_MULTI_DEVICE = (
    "Cooperative launches over several devices are gone. Launch one cooperative grid on each device "
    "(cudaLaunchCooperativeKernel) and synchronise the devices by events, NCCL or NVSHMEM."
)
# Same arguments, same meaning, in both toolkits.
_RENAMED = {
    "cudaThreadExit": ("cudaDeviceReset", "cudaDeviceReset()"),
    "cudaThreadSynchronize": ("cudaDeviceSynchronize", "cudaDeviceSynchronize()"),
    "cudaThreadSetLimit": ("cudaDeviceSetLimit", "cudaDeviceSetLimit(limit, bytes)"),
    "cudaThreadGetLimit": ("cudaDeviceGetLimit", "cudaDeviceGetLimit(&bytes, limit)"),
    "cudaThreadGetCacheConfig": ("cudaDeviceGetCacheConfig", "cudaDeviceGetCacheConfig(&cache)"),
    "cudaThreadSetCacheConfig": ("cudaDeviceSetCacheConfig", "cudaDeviceSetCacheConfig(cache)"),
    "nvrtcGetNVVM": ("nvrtcGetLTOIR", "nvrtcGetLTOIR(program, text)"),
    "nvrtcGetNVVMSize": ("nvrtcGetLTOIRSize", "nvrtcGetLTOIRSize(program, &bytes)"),
    "cudaDevAttrMaxTimelineSemaphoreInteropSupported": (
        "cudaDevAttrTimelineSemaphoreInteropSupported",
        "cudaDeviceGetAttribute(&value, cudaDevAttrTimelineSemaphoreInteropSupported, device)",
    ),
}
_BY_NAME = {
    "cuCtxCreate": Remedy(
        "Pass creation parameters (or nullptr) as second argument; or use the device's primary context, "
        "which both toolkits spell alike.",
        both="CUcontext context; cuDevicePrimaryCtxRetain(&context, device)",
        guarded=(
            "#if CUDA_VERSION >= 13000\n  cuCtxCreate(&context, nullptr, flags, device);\n"
            "#else\n  cuCtxCreate(&context, flags, device);\n#endif"
        ),
    ),
    "cuCtxCreate_v3": Remedy(
        "Execution affinity is a member of CUctxCreateParams now.",
        guarded=(
            "#if CUDA_VERSION >= 13000\n  CUctxCreateParams parameters = {affinity, count};\n"
            "  cuCtxCreate(&context, &parameters, flags, device);\n"
            "#else\n  cuCtxCreate_v3(&context, affinity, count, flags, device);\n#endif"
        ),
    ),
    "cuCtxCreate_v2": Remedy(
        "cuCtxCreate_v2 is no longer declared.",
        guarded=(
            "#if CUDA_VERSION >= 13000\n  cuCtxCreate(&context, nullptr, flags, device);\n"
            "#else\n  cuCtxCreate(&context, flags, device);\n#endif"
        ),
    ),
    "cudaMemPrefetchAsync": Remedy(
        "Pass a cudaMemLocation and flags (0). In C++ both toolkits take that; C needs the guard.",
        both=(
            "location = {cudaMemLocationTypeDevice, device}; "
            "cudaMemPrefetchAsync(static_cast<char *>(pointer), bytes, location, 0u, stream)"
        ),
        guarded=(
            "#if CUDART_VERSION >= 13000\n  cudaMemPrefetchAsync(pointer, bytes, location, 0, stream);\n"
            "#else\n  cudaMemPrefetchAsync(pointer, bytes, device, stream);\n#endif"
        ),
    ),
    "cudaMemAdvise": Remedy(
        "Pass a cudaMemLocation. In C++ both toolkits take that; C needs the guard.",
        both=(
            "location = {cudaMemLocationTypeDevice, device}; cudaMemAdvise("
            "static_cast<char *>(pointer), bytes, cudaMemAdviseSetReadMostly, location)"
        ),
        guarded=(
            "#if CUDART_VERSION >= 13000\n  cudaMemAdvise(pointer, bytes, advice, location);\n"
            "#else\n  cudaMemAdvise(pointer, bytes, advice, device);\n#endif"
        ),
    ),
    "cudaStreamGetCaptureInfo": Remedy(
        "Up to five arguments mean the same in both toolkits; a sixth is now the edges' data, and the number of "
        "dependencies the seventh.",
        both=(
            "cudaStreamCaptureStatus status; unsigned long long id; "
            "cudaStreamGetCaptureInfo(stream, &status, &id)"
        ),
        guarded=(
            "#if CUDART_VERSION >= 13000\n"
            "  cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &edges, &count);\n"
            "#else\n  cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &count);\n#endif"
        ),
    ),
    "cudaOccMaxBlocksPerSMBlockBarrierLimit": Remedy(
        "Pass the device's properties before the function's attributes.",
        guarded=(
            "#if __CUDA_OCC_MAJOR__ >= 12\n"
            "  cudaOccMaxBlocksPerSMBlockBarrierLimit(&limit, size, &properties, &attributes);\n"
            "#else\n  cudaOccMaxBlocksPerSMBlockBarrierLimit(&limit, size, &attributes);\n#endif"
        ),
    ),
    "cudaSetDoubleForDevice": Remedy("Drop the call: every supported device has double precision."),
    "cudaSetDoubleForHost": Remedy("Drop the call: every supported device has double precision."),
    "cudaDeviceProp::reserved1": Remedy("Reserved members mean nothing: drop the use."),
    "cudaDeviceProp::reserved2": Remedy("Reserved members mean nothing: drop the use."),
    "cudaGetDriverEntryPoint": Remedy(
        "Say which version of the function you mean; the ByVersion form is there since CUDA 12.5.",
        guarded=(
            "#if CUDART_VERSION >= 12050\n"
            "  cudaGetDriverEntryPointByVersion(name, &function, version, flags, &result);\n"
            "#else\n  cudaGetDriverEntryPoint(name, &function, flags, &result);\n#endif"
        ),
    ),
    "cuDeviceGetUuid": Remedy(
        "On a MIG device this is now the UUID of the MIG instance. Where the GPU's own is meant, ask NVML for it."
    ),
    "cuEventElapsedTime": Remedy(
        "The newer function checks less: do not rely on it to report an earlier error. Synchronise the event, or query "
        "it, to see one."
    ),
    "CUtensorMap": Remedy(
        "Declare it where the compiler sees the new alignment of 128 bytes: malloc and older objects give 64 or 16."
    ),
    "--host-relocatable-link": Remedy("Drop it: nvcc ignores it and warns."),
    "-r": Remedy(
        "In the new toolkit -r is a relocatable (incremental) link, which also turns on -dc. Write the long option."
    ),
    "-static-global-template-stub": Remedy(
        "Launch a kernel template in the unit that defines it (through a host function), or compile with "
        "-static-global-template-stub=false; 12.4 does not know the option."
    ),
    "-device-entity-has-hidden-visibility": Remedy(
        "Call kernels of a shared library through exported host functions, or compile with "
        "-device-entity-has-hidden-visibility=false; 12.4 does not know the option."
    ),
    "-arch": Remedy("Name the architectures that you build for.", both="nvcc -arch=sm_80"),
    "PTX .version": Remedy(
        "Ship SASS for the GPUs that you support, or PTX of a toolkit no newer than the oldest driver."
    ),
    "RESOURCE_ABI_EXTERNAL_BYTES": Remedy(
        "sizeof of the member that it sized is the same number.", both="sizeof(CUdevResource)"
    ),
    "cuda_surface_types.h": Remedy(
        "Drop the include: surface references are gone since CUDA 12.0."
    ),
    "cuda_texture_types.h": Remedy(
        "Drop the include: texture references are gone since CUDA 12.0."
    ),
    "surface_functions.h": Remedy(
        "Drop the include: nvcc has surface_indirect_functions.h included already."
    ),
    "texture_fetch_functions.h": Remedy(
        "Drop the include: nvcc has texture_indirect_functions.h included already."
    ),
}
_BY_NAME |= {
    name: Remedy(_NO_MULTI_DEVICE)
    for name in (
        "cudaLaunchCooperativeKernelMultiDevice",
        "cudaLaunchParams",
        "cudaCooperativeLaunchMultiDeviceNoPreSync",
        "cudaCooperativeLaunchMultiDeviceNoPostSync",
        "cudaDevAttrCooperativeMultiDeviceLaunch",
        "cudaDeviceProp::cooperativeMultiDeviceLaunch",
        "cudaCGScopeMultiGrid",
        "cooperative_groups::this_multi_grid",
        "cooperative_groups::multi_grid_group",
    )
}
# Names of CCCL -> what stands in for them: checked against both models, and used as `both` where both have it.
_CCCL = {
    "cub::Sum": "cuda::std::plus<>",
    "cub::Difference": "cuda::std::minus<>",
    "cub::Division": "cuda::std::divides<>",
    "cub::Equality": "cuda::std::equal_to<>",
    "cub::Inequality": "cuda::std::not_equal_to<>",
    "cub::Max": "thrust::maximum<>",
    "cub::Min": "thrust::minimum<>",
    "cub::max": "cuda::std::max",
    "cub::min": "cuda::std::min",
    "cub::Swap": "cuda::std::swap",
    "cub::FpLimits": "cuda::std::numeric_limits",
    "cub::TransformInputIterator": "thrust::transform_iterator",
    "cub::CountingInputIterator": "thrust::counting_iterator",
    "cub::ConstantInputIterator": "thrust::constant_iterator",
    "cub::DiscardOutputIterator": "thrust::discard_iterator",
    "cub::Int2Type": "cuda::std::integral_constant",
    "cub::If": "cuda::std::conditional",
    "cub::EnableIf": "cuda::std::enable_if",
    "cub::Equals": "cuda::std::is_same",
    "cub::IsPointer": "cuda::std::is_pointer",
    "cub::IsVolatile": "cuda::std::is_volatile",
    "cub::RemoveQualifiers": "cuda::std::remove_cv",
    "thrust::identity": "cuda::std::identity",
    "thrust::not1": "cuda::std::not_fn",
    "thrust::not2": "cuda::std::not_fn",
    "thrust::optional": "cuda::std::optional",
    "thrust::nullopt": "cuda::std::nullopt",
    "thrust::nullopt_t": "cuda::std::nullopt_t",
    "thrust::make_optional": "cuda::std::make_optional",
    "thrust::in_place": "cuda::std::in_place",
    "thrust::in_place_t": "cuda::std::in_place_t",
    "thrust::numeric_limits": "cuda::std::numeric_limits",
    "thrust::void_t": "cuda::std::void_t",
    "thrust::remove_cvref": "cuda::std::remove_cvref",
    "thrust::remove_cvref_t": "cuda::std::remove_cvref_t",
}
_CCCL_TEXTS = {
    "thrust::unary_function": "Drop the base class; declare argument_type and result_type yourself if they are used.",
    "thrust::binary_function": (
        "Drop the base class; declare first_argument_type, second_argument_type and result_type yourself if they are "
        "used."
    ),
    "cub::TransformInputIterator": (
        "Write thrust::make_transform_iterator(iterator, operation): mind the order, and that it has no value type."
    ),
    "cub::DeviceSpmv": "Use cusparseSpMV of cuSPARSE.",
    "cub::CTA_SYNC": "Write __syncthreads().",
    "cub::CTA_SYNC_AND": "Write __syncthreads_and(predicate).",
    "cub::CTA_SYNC_OR": "Write __syncthreads_or(predicate).",
    "cub::WARP_SYNC": "Write __syncwarp(mask).",
    "cub::WARP_ANY": "Write __any_sync(mask, predicate).",
    "cub::WARP_ALL": "Write __all_sync(mask, predicate).",
    "cub::WARP_BALLOT": "Write __ballot_sync(mask, predicate).",
    "cub::SHFL_IDX_SYNC": "Write __shfl_sync(mask, value, lane).",
    "cub::PRMT": "Write __byte_perm(a, b, selector).",
    "cub::FFMA_RZ": "Write __fmaf_rz(a, b, c).",
    "cub::FMUL_RZ": "Write __fmul_rz(a, b).",
    "cub::IADD3": "Write a + b + c.",
    "cub::SHL_ADD": "Write (a << b) + c.",
    "cub::SHR_ADD": "Write (a >> b) + c.",
    "cub::ThreadTrap": "Write __trap().",
    "cub::DivideAndRoundUp": "Write (n + d - 1) / d; newer CCCL has cuda::ceil_div(n, d).",
    "cub::LaneId": "Newer CCCL has cuda::ptx::get_sreg_laneid(); for 12.4 write (threadIdx.x % 32) or inline PTX.",
    "cub::GridBarrier": "Synchronise a cooperative grid: cooperative_groups::this_grid().sync().",
    "cub::Mutex": "Write std::mutex.",
    "thrust::async": "Call the algorithm with thrust::cuda::par_nosync.on(stream), and synchronise the stream.",
}


def remedied(change: Change, old: Model, new: Model) -> Change:
    """``change`` with its remedy and page."""
    page = _PAGES.get(change.rule) or (CCCL_GUIDE if change.rule in _CCCL_RULES else None)
    return dataclasses.replace(change, remedy=_remedy(change, old, new), url=change.url or page)


def _remedy(change: Change, old: Model, new: Model) -> Remedy | None:
    name = change.name
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name in _RENAMED:
        successor, both = _RENAMED[name]
        return Remedy(f"Write {successor}.", both=both, replacement=successor)
    record, _, field = name.partition("::")
    if record == "cudaDeviceProp" and field in _FIELDS:
        return Remedy("Ask for the attribute, or for what the field said.", both=_FIELDS[field])
    by_rule = {
        "FN-SUFFIX": _suffix,
        "FN-SIG": _signature,
        "ALIAS-REMOVED": _alias,
        "CCCL-REMOVED": _cccl,
        "INCLUDE-TRANSITIVE": _transitive,
    }
    if change.rule in by_rule:
        return by_rule[change.rule](change, old, new)
    return _general(change)


def _suffix(change: Change, old: Model, new: Model) -> Remedy:
    """The plain name now has the suffixed function's signature; where it had it before, it is all that is needed."""
    plain = re.sub(r"_v\d+$", "", change.name)
    suffixed = old.function[change.name].signatures
    both = suffixed == old.function[plain].signatures == new.function[plain].signatures
    if both:
        return Remedy(f"Write {plain}: it is this function in both toolkits.", replacement=plain)
    macro = "CUDA_VERSION" if change.where == "cuda.h" else "CUDART_VERSION"
    return Remedy(
        f"{plain} has this signature in the new toolkit.",
        guarded=f"#if {macro} >= 13000\n  {plain}(...);\n#else\n  {change.name}(...);\n#endif",
    )


def _signature(change: Change, old: Model, new: Model) -> Remedy:
    symbol = new.function[change.name].symbol
    before = old.function.get(symbol) if symbol else None
    # The driver's newer functions were there before, under the names that plain ones now stand for.
    if symbol and symbol != change.name and before:
        edges = "; nullptr where there is no edge data" if "EdgeData" in (change.new or "") else ""
        return Remedy(
            f"Call {symbol}, which both toolkits declare, with the new arguments{edges}.",
            both=symbol,
        )
    return Remedy(
        "Pass nullptr for the edges' data where there is none.",
        guarded=(
            f"#if CUDART_VERSION >= 13000\n  {change.name}(...); // with edge data\n"
            f"#else\n  {change.name}(...);\n#endif"
        ),
    )


def _alias(change: Change, old: Model, new: Model) -> Remedy:
    successor = change.old or ""
    if successor in new.type and successor in old.type:
        return Remedy(
            "Name the version of the function that you mean.",
            both=f"{successor} function = nullptr",
            replacement=successor,
        )
    return Remedy("Name the version of the function that you mean: PFN_<function>_v<version>.")


def _cccl(change: Change, old: Model, new: Model) -> Remedy | None:
    successor = _CCCL.get(change.name)
    text = _CCCL_TEXTS.get(change.name)
    if successor is None:
        return Remedy(text) if text else None
    name = successor.removesuffix("<>")
    in_both = all(
        model.cccl is not None and any(known.name == name for known in model.cccl.names)
        for model in (old, new)
    )
    return Remedy(text or f"Write {successor}.", both=successor if in_both else None)


def _transitive(change: Change, old: Model, new: Model) -> Remedy | None:
    """The smallest public header that has the name in both toolkits."""
    assert old.cccl
    assert new.cccl
    name = next(known for known in old.cccl.names if known.name == change.name)
    candidates = set(change.brought_by) & old.cccl.visible_from(name)
    closures = new.cccl.closures
    if not candidates:
        # Headers of the standard's names that CCCL had not then.
        header = min(change.brought_by, key=lambda header: (len(closures[header]), header))
        return Remedy(
            f"Include <{header}>, where there is one.",
            guarded=f"#if __has_include(<{header}>)\n#include <{header}>\n#endif",
        )
    header = min(candidates, key=lambda header: (len(closures[header]), header))
    return Remedy(f"Include <{header}>.", both=f"#include <{header}>")


def _general(change: Change) -> Remedy | None:
    texts = {
        "HDR-MOVED": (
            "nvcc finds it. For a host compiler add the toolkit's include/cccl (CMake: link CCCL::CCCL); do not "
            "write <cccl/...>."
        ),
        "ABI-LAYOUT": "Compile everything that shares it with one toolkit, and generate bindings anew.",
        "ENUM-SENTINEL": "Do not size arrays that older objects share by it.",
        "ARCH-REMOVED": "Drop it where the new toolkit builds; build for sm_75 and later.",
        "SONAME": f"Load {change.new} as well; better, ask the loader for the library that was linked.",
        "CCCL-SIG": (
            "Drop the last argument: bool debug_synchronous of the device algorithms (define CUB_DEBUG_SYNC to check "
            "after each), int LEGACY_PTX_ARCH of the block and warp templates."
        ),
        "DEPRECATED": (change.new or "").strip() or None,
    }
    text = texts.get(change.rule)
    return Remedy(text) if text else None
