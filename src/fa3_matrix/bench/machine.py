"""Which GPU this is, for the head of every result, and whether it is the one that a session asks for."""

import platform
from pathlib import Path
from typing import Any

from fa3_matrix.bench.sensors import Sensors
from fa3_matrix.matrix import ComputeCapability, Gpu, Matrix

# Set to 1, it makes a GPU that is missing an error where it would be a sentence.
REQUIRE_GPU = "FA3_REQUIRE_GPU"


def describe(device: int = 0) -> dict[str, Any]:
    """The ``machine`` block of a results file; ``gpu`` is None without a usable GPU."""
    result: dict[str, Any] = {"gpu": None, "python": platform.python_version()}
    if why_no_gpu():
        return result
    import torch

    properties = torch.cuda.get_device_properties(device)
    return result | {
        "gpu": properties.name,
        "compute_capability": [properties.major, properties.minor],
        "driver": driver_version(),
        "uuid": str(properties.uuid),
        "sms": properties.multi_processor_count,
        "torch": torch.__version__,
        "clocks": Sensors(str(properties.uuid)).clocks(),
    }


def capability(device: int = 0) -> ComputeCapability:
    """Compute capability of a CUDA device."""
    import torch

    return ComputeCapability(*torch.cuda.get_device_capability(device))


def why_no_gpu() -> str:
    """One sentence when nothing can run on a GPU here, else an empty string."""
    if driver_version() is None:
        return "no NVIDIA driver"
    try:
        import torch
    except ImportError:
        return "torch is not installed: pip install 'fa3-matrix[torch]'"
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is a build without CUDA"
    if not torch.cuda.is_available():
        return "torch finds no usable NVIDIA GPU"
    return ""


def gpu_here(matrix: Matrix) -> Gpu | None:
    """Which of the matrix's GPUs this machine's serves as; None for any other, or without one."""
    if why_no_gpu():
        return None
    here = capability()
    return next((gpu for gpu in matrix.gpus if here in gpu.capabilities), None)


def why_not(gpu: str, matrix: Matrix) -> str:
    """One sentence when this machine's GPU does not serve as the matrix's `gpu` ("h100"), else an empty string."""
    reason = why_no_gpu()
    if reason:
        return f"{gpu} wanted: {reason}"
    wanted = matrix.gpu(gpu)
    here = capability()
    if here in wanted.capabilities:
        return ""
    capabilities = " or ".join(str(c) for c in wanted.capabilities)
    return (
        f"{gpu} ({', '.join(wanted.products)}; compute capability {capabilities}) wanted, but this is "
        f"{describe()['gpu']} ({here})"
    )


def driver_version() -> str | None:
    """ "580.159.03", or None where no NVIDIA driver is loaded."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except Exception:
        # No pynvml, or no driver for it: NVML's error classes exist only once it is imported. The kernel module's
        # own file says the same.
        return _driver_from_proc(Path("/proc/driver/nvidia/version"))


def _driver_from_proc(path: Path) -> str | None:
    """The version in "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.03  Fri ..."."""
    if not path.is_file():
        return None
    for word in path.read_text(encoding="utf-8").split():
        if word.count(".") >= 1 and word.replace(".", "").isdigit():
            return word
    return None


def sm_clock_mhz(device: int = 0) -> int | None:
    """The SM clock right now; None without NVML."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(device)
        return int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))
    except Exception:
        return None
