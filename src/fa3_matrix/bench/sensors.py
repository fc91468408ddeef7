"""What the GPU says of itself while it is timed, through NVML. Nothing is ever set."""

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

# NVML's clock event reasons that make a sample another experiment. The power cap is not among them: a kernel that
# draws more power and is clocked down for it is slower.
_DISTURBANCES = {
    "HwSlowdown": "hardware slowdown",
    "SwThermalSlowdown": "thermal slowdown",
    "HwThermalSlowdown": "hardware thermal slowdown",
    "HwPowerBrakeSlowdown": "power brake",
}


class Sensors:
    """Readings of one GPU, by its UUID. Each is None where NVML or the GPU doesn't have it.

    Other processes are those that were not on the GPU when this was made; make it once this process is.
    """

    def __init__(self, uuid: str) -> None:
        self._nvml: Any = None
        self._handle: Any = None
        try:
            import pynvml

            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            self._nvml = pynvml
        except Exception:
            # No pynvml or no NVML: its error classes exist only once it is imported.
            self._nvml = None
        self._processes = self._process_count()

    def sm_mhz(self) -> int | None:
        """The SM clock right now."""
        return self._read(lambda n: int(n.nvmlDeviceGetClockInfo(self._handle, n.NVML_CLOCK_SM)))

    def watts(self) -> float | None:
        """Power drawn now."""
        return self._read(lambda n: float(n.nvmlDeviceGetPowerUsage(self._handle)) / 1000)

    def celsius(self) -> int | None:
        """The GPU's temperature."""
        return self._read(
            lambda n: int(n.nvmlDeviceGetTemperature(self._handle, n.NVML_TEMPERATURE_GPU))
        )

    def clocks(self) -> dict[str, str | float | None]:
        """Under which rule the clocks run: MHz that may be reached and that are asked for, and the power cap.

        A lock by ``nvidia-smi --lock-gpu-clocks`` is not among them: NVML sets it, but does not read it.
        """
        return {
            "policy": "recorded, never set",
            "sm_max_mhz": self._read(
                lambda n: int(n.nvmlDeviceGetMaxClockInfo(self._handle, n.NVML_CLOCK_SM))
            ),
            "sm_application_mhz": self._read(
                lambda n: int(n.nvmlDeviceGetApplicationsClock(self._handle, n.NVML_CLOCK_SM))
            ),
            "power_limit_watts": self._read(
                lambda n: float(n.nvmlDeviceGetEnforcedPowerLimit(self._handle)) / 1000
            ),
        }

    def disturbance(self) -> str | None:
        """Why what was timed just now does not count, or None."""
        reasons = self._read(lambda n: int(n.nvmlDeviceGetCurrentClocksEventReasons(self._handle)))
        for name, text in _DISTURBANCES.items():
            # NVML's older name; newer modules have both.
            if (reasons or 0) & int(getattr(self._nvml, f"nvmlClocksThrottleReason{name}", 0)):
                return text
        processes = self._process_count()
        if processes is not None and self._processes is not None and processes > self._processes:
            return "another process on the GPU"
        return None

    def _process_count(self) -> int | None:
        return self._read(lambda n: len(n.nvmlDeviceGetComputeRunningProcesses(self._handle)))

    def _read(self, reading: Callable[[Any], T]) -> T | None:
        if self._nvml is None:
            return None
        try:
            return reading(self._nvml)
        except Exception:
            return None
