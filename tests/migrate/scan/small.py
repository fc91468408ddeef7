"""A difference of two toolkits that is small enough to read: rows as the shipped one has them."""

from fa3_matrix.migrate.difference import BrokenCall, Change, Difference, Remedy
from fa3_matrix.migrate.standard import standard_rows


def _row(rule: str, name: str, kind: str, where: str = "x.h", **fields: object) -> Change:
    return Change(
        **{  # type: ignore[arg-type]
            "rule": rule,
            "name": name,
            "kind": kind,
            "where": where,
            "since": "13.0",
            "old": None,
            "new": None,
            **fields,
        }
    )


_PREFETCH = _row(
    "FN-SIG",
    "cudaMemPrefetchAsync",
    "function",
    old="cudaError_t (const void *, size_t, int, cudaStream_t)",
    new="cudaError_t (const void *, size_t, struct cudaMemLocation, unsigned int, cudaStream_t)",
    old_arities=(3, 4, 5),
    new_arities=(4, 5),
    broken_calls=(
        BrokenCall(3, 3, None, "unsigned int"),
        BrokenCall(4, 2, "int", "struct cudaMemLocation", certain=False),
    ),
)

DIFFERENCE = Difference(
    "12.4",
    "13.3",
    "2.3.2",
    "3.5.0",
    (
        *(
            _row("FIELD-REMOVED", f"cudaDeviceProp::{name}", "field", old="int")
            for name in ("clockRate", "computeMode", "deviceOverlap", "maxTexture1DLinear")
        ),
        _row(
            "FN-REMOVED",
            "cudaThreadSynchronize",
            "function",
            old_arities=(0,),
            remedy=Remedy("Call cudaDeviceSynchronize.", replacement="cudaDeviceSynchronize"),
        ),
        _row("FN-REMOVED", "cudaLaunchCooperativeKernelMultiDevice", "function"),
        _row("TYPE-REMOVED", "cudaLaunchParams", "type"),
        _row("FN-REMOVED", "nvrtcGetNVVM", "function"),
        _row("FN-SUFFIX", "cudaGetDeviceProperties_v2", "function"),
        _row("FN-REMOVED", "cooperative_groups::this_multi_grid", "function"),
        _row("ALIAS-REMOVED", "PFN_cuTensorMapEncodeTiled", "macro"),
        _PREFETCH,
        _row(
            "FN-SIG",
            "cudaMemAdvise",
            "function",
            old="cudaError_t (const void *, size_t, enum cudaMemoryAdvise, int)",
            new="cudaError_t (const void *, size_t, enum cudaMemoryAdvise, struct cudaMemLocation)",
            old_arities=(4,),
            new_arities=(4,),
        ),
        _row(
            "FN-SIG",
            "cuCtxCreate",
            "function",
            old="CUresult (CUcontext *, unsigned int, CUdevice)",
            new="CUresult (CUcontext *, CUctxCreateParams *, unsigned int, CUdevice)",
            old_arities=(3,),
            new_arities=(4,),
        ),
        _row(
            "FN-SIG",
            "cudaGraphAddDependencies",
            "function",
            old="cudaError_t (cudaGraph_t, const cudaGraphNode_t *, const cudaGraphNode_t *, size_t)",
            new="cudaError_t (cudaGraph_t, const cudaGraphNode_t *, const cudaGraphNode_t *, "
            "const cudaGraphEdgeData *, size_t)",
            old_arities=(4,),
            new_arities=(5,),
        ),
        _row(
            "FN-SIG",
            "cudaStreamGetCaptureInfo",
            "function",
            old_arities=(2, 3, 4, 5, 6),
            new_arities=(2, 3, 4, 5, 6, 7),
            broken_calls=(BrokenCall(6, 5, "size_t *", "const cudaGraphEdgeData **"),),
        ),
        _row("ENUM-REMOVED", "cudaDevAttrCooperativeMultiDeviceLaunch", "enumerator"),
        _row("DEPRECATED", "double4", "type"),
        _row("HDR-REMOVED", "texture_fetch_functions.h", "header"),
        _row("HDR-MOVED", "thrust/", "header"),
        _row("HDR-MOVED", "cub/", "header"),
        _row("HDR-REMOVED", "thrust/optional.h", "header"),
        _row("CCCL-REMOVED", "thrust::unary_function", "cccl"),
        _row(
            "CCCL-REMOVED",
            "cub::Sum",
            "cccl",
            remedy=Remedy("Use cuda::std::plus.", replacement="::cuda::std::plus<>"),
        ),
        _row("CCCL-REMOVED", "cub::Max", "cccl"),
        _row("CCCL-REMOVED", "thrust::detail::is_proxy", "cccl-internal", "thrust/detail/traits.h"),
        _row("CCCL-REMOVED", "cub::TransformInputIterator", "cccl"),
        _row("CCCL-REMOVED", "CUB_MIN", "macro"),
        _row(
            "CCCL-SIG",
            "cub::DeviceReduce::Sum",
            "cccl",
            old_arities=(5, 6, 7),
            new_arities=(5, 6),
        ),
        _row(
            "CCCL-SIG",
            "cub::DeviceScan::ExclusiveSum",
            "cccl",
            old="4, 5, 6, 7 arguments",
            new="2, 3, 4, 5, 6 arguments",
            old_arities=(4, 5, 6, 7),
            new_arities=(2, 3, 4, 5, 6),
            broken_calls=(BrokenCall(6, 5, "bool", "cudaStream_t", certain=False),),
        ),
        _row(
            "INCLUDE-TRANSITIVE",
            "thrust::make_tuple",
            "cccl",
            where="thrust/tuple.h",
            lost_from=("thrust/device_vector.h", "thrust/sort.h"),
            brought_by=("thrust/tuple.h", "thrust/iterator/zip_iterator.h"),
            remedy=Remedy("Include <thrust/tuple.h>.", both="#include <thrust/tuple.h>"),
        ),
        _row(
            "CCCL-SIG",
            "cub::BlockReduce",
            "cccl-template",
            old="2 to 6 template arguments",
            new="2 to 5 template arguments",
            broken_calls=(BrokenCall(6, 5, None, None),),
        ),
        *standard_rows("2.3.2", "3.5.0"),
        _row("ARCH-REMOVED", "sm_70", "arch"),
        _row("SONAME", "libcudart.so.12", "library", new="libcudart.so.13"),
        _row("SONAME", "cudart64_12.dll", "library"),
        _row("LINK-STUB", "-static-global-template-stub", "behaviour"),
    ),
)
