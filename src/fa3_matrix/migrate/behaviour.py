"""What headers cannot show: rows written by hand, each with its source.

A row is part of a difference when its release lies after the old toolkit and not after the new one.
"""

from collections.abc import Iterator

from fa3_matrix.migrate.difference import Change, Remedy
from fa3_matrix.migrate.rules import Proof

_CUFFT = "https://docs.nvidia.com/cuda/cufft/index.html#deprecated-functionality"
_PYTHON = "https://nvidia.github.io/cuda-python/cuda-bindings/latest/release/13.0.0-notes.html"
_CCCL_GUIDE = "https://nvidia.github.io/cccl/cccl/3.0_migration_guide.html"
_NVTX = "https://docs.nvidia.com/cuda/archive/12.9.0/cuda-toolkit-release-notes/index.html"
_COMPRESSION = "https://developer.nvidia.com/blog/whats-new-and-important-in-cuda-toolkit-13-0/"
_LOSSY = "https://github.com/pytorch/pytorch/issues/168305"
_CUPTI = "https://docs.nvidia.com/cupti/release-notes/release-notes.html"
_SHUFFLE = "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#warp-shuffle-functions"
_IMAGES = "https://hub.docker.com/r/nvidia/cuda"
_WHEELS = "https://docs.nvidia.com/cuda/cuda-installation-guide-linux/index.html#pip-wheels"


def rows(old: str, new: str) -> list[Change]:
    """The rows of a difference from one release to another ("12.4", "13.3")."""
    return [
        row for row in _all(new) if row.since and _number(old) < _number(row.since) <= _number(new)
    ]


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def _all(new: str) -> Iterator[Change]:
    yield from _warp_intrinsics()
    yield from _run_time()
    yield from _libraries()
    yield from _python()
    yield from _images(new)
    yield _row(
        "DIALECT",
        "-std",
        "flag",
        "13.0",
        "C++11 (Thrust and CUB warned below C++14)",
        "C++17",
        Remedy("Compile with -std=c++17 or later.", both="-std=c++17"),
        where="thrust, cub, cuda/std",
        # An #error of CCCL's headers that both compilers were given.
        proof=Proof.WITNESS,
        url=_CCCL_GUIDE,
    )


def _row(
    rule: str,
    name: str,
    kind: str,
    since: str,
    old: str | None,
    new: str | None,
    remedy: Remedy | None,
    *,
    where: str = "",
    url: str,
    proof: Proof = Proof.DOCUMENTATION,
) -> Change:
    return Change(rule, name, kind, where, since, old, new, remedy=remedy, proof=proof, url=url)


def _warp_intrinsics() -> Iterator[Change]:
    """Declared still, and usable for no architecture that is left: a program of each was given to both compilers."""
    for name, new, where in (
        ("__shfl", "__shfl_sync(mask, value, lane)", "sm_30_intrinsics.h"),
        ("__shfl_up", "__shfl_up_sync(mask, value, delta)", "sm_30_intrinsics.h"),
        ("__shfl_down", "__shfl_down_sync(mask, value, delta)", "sm_30_intrinsics.h"),
        ("__shfl_xor", "__shfl_xor_sync(mask, value, lanes)", "sm_30_intrinsics.h"),
        ("__any", "__any_sync(mask, predicate)", "device_atomic_functions.h"),
        ("__all", "__all_sync(mask, predicate)", "device_atomic_functions.h"),
        ("__ballot", "__ballot_sync(mask, predicate)", "sm_20_intrinsics.h"),
    ):
        yield _row(
            "FN-REMOVED",
            name,
            "function",
            "13.0",
            "for architectures before sm_70",
            None,
            Remedy(f"Write {new}; the mask of a whole warp is 0xffffffff.", both=new),
            where=where,
            proof=Proof.WITNESS,
            url=_SHUFFLE,
        )


def _run_time() -> Iterator[Change]:
    for name, error in (
        ("cudaGraphGetEdges", "cudaErrorLossyQuery"),
        ("cudaGraphNodeGetDependencies", "cudaErrorLossyQuery"),
        ("cudaGraphNodeGetDependentNodes", "cudaErrorLossyQuery"),
        ("cuGraphGetEdges", "CUDA_ERROR_LOSSY_QUERY"),
        ("cuGraphNodeGetDependencies", "CUDA_ERROR_LOSSY_QUERY"),
        ("cuGraphNodeGetDependentNodes", "CUDA_ERROR_LOSSY_QUERY"),
    ):
        yield _row(
            "RUNTIME-BEHAVIOUR",
            name,
            "behaviour",
            "13.0",
            "edges' data was not asked for",
            f"{error} when an edge has data and nullptr was passed for it",
            Remedy("Pass an array for the edges' data where the graph may have any."),
            where="cuda.h" if name.startswith("cuGraph") else "cuda_runtime_api.h",
            url=_LOSSY,
        )
    # Not by the functions' names: calls on numbers are as they were.
    yield _row(
        "RUNTIME-BEHAVIOUR",
        "cub::DeviceReduce of types of your own",
        "behaviour",
        "13.0",
        "Min, Max, ArgMin and ArgMax started from cub::Traits<T>",
        "they start from cuda::std::numeric_limits<T>; Min and Max refuse types that have none",
        Remedy("Specialise cuda::std::numeric_limits for the type."),
        where="cub/device/device_reduce.cuh",
        url=_CCCL_GUIDE,
    )
    for name in (
        "cuptiEventGroupCreate",
        "cuptiEventGroupSetsCreate",
        "cuptiEventGroupEnable",
        "cuptiEventEnableCollectionMode",
        "cuptiMetricCreateEventGroupSets",
    ):
        yield _row(
            "RUNTIME-BEHAVIOUR",
            name,
            "behaviour",
            "13.0",
            "collected events on GPUs before sm_75",
            "CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED: no supported GPU has the Event API",
            Remedy("Use the Range Profiling API."),
            where="cupti.h",
            url=_CUPTI,
        )
    yield _row(
        "RUNTIME-BEHAVIOUR",
        "compression of fatbinaries",
        "behaviour",
        "13.0",
        "LZ4",
        "zstd, which drivers older than CUDA 12.4's cannot load",
        Remedy("nvcc -compress-mode=speed keeps the old method; 12.4 does not know the option."),
        where="nvcc",
        url=_COMPRESSION,
    )


def _libraries() -> Iterator[Change]:
    for name in ("CUFFT_INCOMPLETE_PARAMETER_LIST", "CUFFT_PARSE_ERROR", "CUFFT_LICENSE_ERROR"):
        yield _row(
            "ENUM-REMOVED",
            name,
            "enumerator",
            "13.0",
            "a cufftResult",
            None,
            Remedy("Drop the case: cuFFT did not return it any more."),
            where="cufft.h",
            url=_CUFFT,
        )
    renamed = {
        "libcublas.so.12": "libcublas.so.13",
        "libcublasLt.so.12": "libcublasLt.so.13",
        "libcufft.so.11": "libcufft.so.12",
        "libcusolver.so.11": "libcusolver.so.12",
        "libnvJitLink.so.12": "libnvJitLink.so.13",
        "libcupti.so.12": "libcupti.so.13",
        "libcufft_static_nocallback.a": None,
    }
    for old, new in renamed.items():
        yield _row(
            "SONAME",
            old,
            "library",
            "13.0",
            old,
            new,
            Remedy(f"Load {new} as well.")
            if new
            else Remedy("Link libcufft_static.a.", both="libcufft_static.a"),
            where=old.partition(".")[0],
            url=_CUFFT if "cufft" in old else _WHEELS,
        )
    for name in ("libnvToolsExt.so.1", "CUDA::nvToolsExt"):
        yield _row(
            "SONAME",
            name,
            "library",
            "12.9",
            name,
            None,
            Remedy(
                "NVTX 3 has headers alone: include <nvtx3/nvToolsExt.h> and link nothing (CMake: CUDA::nvtx3).",
                both="CUDA::nvtx3" if name.startswith("CUDA::") else None,
                replacement="CUDA::nvtx3" if name.startswith("CUDA::") else None,
            ),
            where="libnvToolsExt",
            url=_NVTX,
        )
    yield _row(
        "HDR-REMOVED",
        "nvToolsExt.h",
        "header",
        "12.9",
        "include",
        None,
        Remedy(
            "Include <nvtx3/nvToolsExt.h>.",
            both="#include <nvtx3/nvToolsExt.h>",
            replacement="nvtx3/nvToolsExt.h",
        ),
        where="nvToolsExt.h",
        url=_NVTX,
    )


def _python() -> Iterator[Change]:
    for old, new in (
        ("cuda.cuda", "cuda.bindings.driver"),
        ("cuda.cudart", "cuda.bindings.runtime"),
        ("cuda.nvrtc", "cuda.bindings.nvrtc"),
        ("cuda.ccuda", "cuda.bindings.cydriver"),
        ("cuda.ccudart", "cuda.bindings.cyruntime"),
        ("cuda.cnvrtc", "cuda.bindings.cynvrtc"),
    ):
        yield _row(
            "PY-IMPORT",
            old,
            "module",
            "13.0",
            old,
            new,
            Remedy(
                f"Import {new}: cuda-python has it since 12.6, beside the old module until 12.9.",
                replacement=new,
            ),
            where="cuda-python",
            url=_PYTHON,
        )
    # One folder for all parts since CUDA 13; looked up in the wheels themselves.
    for part in (
        *("cuda_runtime", "cuda_nvcc", "cuda_nvrtc", "cuda_cupti", "cuda_cccl", "cublas", "cufft"),
        *("cufile", "curand", "cusolver", "cusparse", "nvjitlink", "nvjpeg", "npp", "nvtx"),
    ):
        wheel = f"nvidia-{part.replace('_', '-')}"
        yield _row(
            "PY-WHEEL",
            f"{wheel}-cu12",
            "wheel",
            "13.0",
            f"{wheel}-cu12",
            wheel,
            Remedy(f"Require {wheel}, of a version for CUDA 13.", replacement=wheel),
            where="pip",
            url=_WHEELS,
        )
        yield _row(
            "PY-WHEEL",
            f"nvidia/{part}",
            "wheel",
            "13.0",
            f"nvidia/{part}",
            "nvidia/cu13",
            Remedy("Look into nvidia/cu13 first, then here."),
            where="pip",
            url=_WHEELS,
        )
    # Shipped apart from the toolkit: these keep the suffix.
    for name in ("cudnn", "nccl", "nvshmem", "cusparselt", "cutensor"):
        prefix = "" if name == "cutensor" else "nvidia-"
        old, new = f"{prefix}{name}-cu12", f"{prefix}{name}-cu13"
        yield _row(
            "PY-WHEEL",
            old,
            "wheel",
            "13.0",
            old,
            new,
            Remedy(f"Require {new}.", replacement=new),
            where="pip",
            url=_WHEELS,
        )


def _images(new: str) -> Iterator[Change]:
    image = f"nvidia/cuda:{new}.0-devel-ubuntu22.04"
    yield _row(
        "IMAGE",
        "nvidia/cuda",
        "image",
        new,
        "nvidia/cuda:12.4.1-devel-ubuntu22.04",
        image,
        Remedy(f"Take an image of CUDA {new}, such as {image}."),
        where="container registry",
        url=_IMAGES,
    )
