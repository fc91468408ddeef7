"""How many compilers may run at once: from cores and from the memory that is free, both as the cgroup allows."""

import os
from pathlib import Path

# Before anything is measured here: the portable kernel's compilers take 140 MB, with room for heavier kernels.
DEFAULT_PEAK_BYTES = 512 * 1024**2
_RESERVE_BYTES = 512 * 1024**2  # left to the rest of the machine
_CGROUP = Path("/sys/fs/cgroup")


def _number(path: Path, field: int = 0) -> int | None:
    """An integer of a one-line kernel file, or None when it is missing or says ``max``."""
    try:
        return int(path.read_text().split()[field])
    except (OSError, ValueError, IndexError):
        return None


def cores(cgroup: Path = _CGROUP) -> int:
    """Cores this process may use: affinity, lowered by a cgroup v2 CPU quota. At least 1."""
    usable = len(os.sched_getaffinity(0))
    quota, period = _number(cgroup / "cpu.max", 0), _number(cgroup / "cpu.max", 1)
    if quota is not None and period:
        usable = min(usable, max(1, quota // period))
    return max(1, usable)


def available_bytes(cgroup: Path = _CGROUP, meminfo: Path = Path("/proc/meminfo")) -> int:
    """Memory that new processes can take: MemAvailable, lowered by a cgroup v2 or v1 limit."""
    lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
    available = int(lines["MemAvailable"].split()[0]) * 1024
    for limit_file, used_file in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        limit, used = _number(cgroup / limit_file), _number(cgroup / used_file)
        if limit is not None and used is not None:
            available = min(available, max(0, limit - used))
    return available


def job_count(peak_bytes: int | None = None) -> int:
    """min(cores, (available memory - reserve) / peak memory of one compiler), at least 1.

    Args:
        peak_bytes: largest compiler process of an earlier build, or None for :data:`DEFAULT_PEAK_BYTES`.
    """
    fitting = (available_bytes() - _RESERVE_BYTES) // (peak_bytes or DEFAULT_PEAK_BYTES)
    return max(1, min(cores(), fitting))
