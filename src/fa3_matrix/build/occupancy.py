"""Theoretical occupancy: how many CTAs of a kernel fit on one SM.

The formula is that of ``cuda_occupancy.h`` (CUDA 13.3, ``cudaOccMaxActiveBlocksPerMultiprocessor``), with the carve-out
that prefers shared memory; tests compare the two. The limits are from the CUDA C++ Programming Guide, "Compute
capabilities", table of technical specifications, and from the same header.
"""

from dataclasses import dataclass

_WARP = 32
_REGISTER_UNIT = 256  # registers are handed out a warp at a time in units of 256
_PARTITIONS = 4  # an SM's register file is split in four; a warp's registers lie in one part
_SHARED_UNIT = 128
_RESERVED_SHARED = 1024  # kept by the driver in each CTA since compute capability 8.0


@dataclass(frozen=True)
class Limits:
    """Resources of one SM. ``shared_bytes_per_cta`` is the opt-in maximum; ``barriers`` None: not a limit there."""

    warps: int
    ctas: int
    registers: int
    shared_bytes: int
    shared_bytes_per_cta: int
    barriers: int | None


LIMITS: dict[tuple[int, int], Limits] = {
    (8, 0): Limits(64, 32, 65536, 164 * 1024, 163 * 1024, None),
    (9, 0): Limits(64, 32, 65536, 228 * 1024, 227 * 1024, 64),
    (10, 0): Limits(64, 32, 65536, 228 * 1024, 227 * 1024, 64),
}


@dataclass(frozen=True)
class Occupancy:
    """CTAs and warps resident on one SM, and which resource (or resources) stops one more CTA."""

    ctas_per_sm: int
    warps_per_sm: int
    limit: str


def limits(capability: tuple[int, int]) -> Limits:
    """The SM limits of a compute capability.

    Raises:
        KeyError: the capability is not in :data:`LIMITS`; an occupancy must not be guessed.
    """
    try:
        return LIMITS[capability]
    except KeyError:
        known = ", ".join(f"{major}.{minor}" for major, minor in sorted(LIMITS))
        raise KeyError(
            f"compute capability {capability[0]}.{capability[1]} has no row in {__name__}.LIMITS (known: {known})"
        ) from None


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def occupancy(
    capability: tuple[int, int],
    *,
    threads: int,
    registers: int,
    shared_bytes: int,
    barriers: int = 0,
) -> Occupancy:
    """Occupancy of a kernel.

    Args:
        capability: compute capability of the SM.
        threads: threads of a CTA.
        registers: registers of a thread at launch.
        shared_bytes: static plus dynamic shared memory of a CTA.
        barriers: named barriers that the kernel uses.

    Returns:
        ``ctas_per_sm`` is 0 when the kernel cannot be launched; ``limit`` then names why.
    """
    sm = limits(capability)
    warps = -(-threads // _WARP)
    by: dict[str, int] = {"warps": sm.warps // warps, "CTAs": sm.ctas}
    if registers:
        per_warp = _round_up(registers * _WARP, _REGISTER_UNIT)
        by["registers"] = sm.registers // _PARTITIONS // per_warp * _PARTITIONS // warps
    per_cta = _round_up(shared_bytes + _RESERVED_SHARED, _SHARED_UNIT)
    by["shared memory"] = (
        sm.shared_bytes // per_cta if shared_bytes <= sm.shared_bytes_per_cta else 0
    )
    if sm.barriers is not None and barriers:
        by["barriers"] = sm.barriers // barriers
    ctas = min(by.values())
    return Occupancy(
        ctas, ctas * warps, " and ".join(name for name, value in by.items() if value == ctas)
    )
