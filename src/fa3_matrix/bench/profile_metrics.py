"""The hardware counters that a profile asks for, and what they are called on the chip by the Nsight Compute at hand.

What their names do not say: the LSU's counters do not see TMA; the tensor pipe's are of wgmma, mma.sync and HFMA2.MMA
together, which compilers also use to move; local memory holds spills and whatever else the compiler keeps on a thread's
stack; a warp's cycles are those of its stalls and one for each instruction.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

Group = Literal[
    "time",
    "fp64",
    "local-memory",
    "occupancy",
    "tensor",
    "stalls",
    "shared-memory",
    "memory-traffic",
    "instructions",
]


@dataclass(frozen=True)
class Metric:
    """One counter.

    Args:
        key: what documents call it, whatever a chip does.
        meaning: in a few words.
        unit: the base unit, "" of a plain count.
        names: ncu's, preferred first.
        group: what it tells of.
        slower: which way it moves when it costs time; None: says nothing by itself.
        scale: the counter beside which a change of this one is large or small; "": itself.
        adds_up: over the kernels of a call, which a share does not.
    """

    key: str
    meaning: str
    unit: str
    names: tuple[str, ...]
    group: Group
    slower: Literal["more", "less"] | None = "more"
    scale: str = ""
    adds_up: bool = True


# What a warp waits for, by ncu's name of the state. All states but "selected", in which it issues.
_WAITS = {
    "barrier": "a CTA barrier",
    "branch_resolving": "a branch's target",
    "dispatch_stall": "the dispatcher",
    "drain": "its last stores",
    "gmma": "the order of wgmma",
    "imc_miss": "constants",
    "lg_throttle": "room among global and local accesses",
    "long_scoreboard": "global or local memory",
    "math_pipe_throttle": "a math pipe",
    "membar": "a memory barrier",
    "mio_throttle": "room among shared-memory and special instructions",
    "misc": "other reasons",
    "no_instruction": "instructions to be fetched",
    "not_selected": "its turn",
    "short_scoreboard": "shared memory or special functions",
    "sleeping": "a sleep's end",
    "tex_throttle": "room among texture accesses",
    "wait": "a fixed latency",
}

METRICS: tuple[Metric, ...] = (
    # Under the profiler, with cold caches and clocks as they come: beside no time of the bench.
    Metric("time", "time", "ns", ("gpu__time_duration.sum",), "time", slower=None),
    Metric("cycles", "SM cycles", "cycle", ("sm__cycles_elapsed.max",), "time", slower=None),
    *(
        Metric(
            f"fp64_{operation}",
            f"fp64 {operation} of threads",
            "inst",
            (f"sm__sass_thread_inst_executed_op_d{operation}_pred_on.sum",),
            "fp64",
        )
        for operation in ("fma", "add", "mul")
    ),
    *(
        Metric(
            f"local_{access}_bytes",
            f"bytes of local-memory {access}s",
            "byte",
            (f"l1tex__t_bytes_pipe_lsu_mem_local_op_{short}.sum",),
            "local-memory",
        )
        for access, short in (("load", "ld"), ("store", "st"))
    ),
    Metric(
        "theoretical_occupancy",
        "theoretical occupancy",
        "%",
        ("sm__maximum_warps_per_active_cycle_pct",),
        "occupancy",
        slower="less",
        adds_up=False,
    ),
    Metric(
        "achieved_occupancy",
        "achieved occupancy",
        "%",
        ("sm__warps_active.avg.pct_of_peak_sustained_active",),
        "occupancy",
        slower="less",
        adds_up=False,
    ),
    Metric(
        "tensor_instructions",
        "tensor-core instructions",
        "inst",
        ("sm__inst_executed_pipe_tc.sum", "sm__inst_executed_pipe_tensor.sum"),
        "tensor",
        slower=None,
    ),
    Metric(
        "tensor_active",
        "tensor-pipe activity",
        "%",
        ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",),
        "tensor",
        slower="less",
        adds_up=False,
    ),
    Metric("warp_cycles", "warp cycles", "warp", ("smsp__warps_active.sum",), "stalls", None),
    *(
        Metric(
            f"stall_{state}",
            f"warp cycles waiting for {what}",
            "warp",
            (f"smsp__warps_issue_stalled_{state}.sum",),
            "stalls",
            scale="warp_cycles",
        )
        for state, what in _WAITS.items()
    ),
    Metric(
        "shared_load_sectors",
        "sectors of shared-memory loads",
        "sector",
        ("l1tex__t_sectors_pipe_lsu_mem_shared_op_ld.sum",),
        "shared-memory",
    ),
    Metric(
        "shared_wavefronts",
        "wavefronts of shared memory",
        "",
        ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",),
        "shared-memory",
    ),
    *(
        Metric(
            f"bank_conflicts_{access}",
            f"shared-memory bank conflicts of {what}",
            "",
            (f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{short}.sum",),
            "shared-memory",
            scale="shared_wavefronts",
        )
        for access, what, short in (
            ("load", "loads", "ld"),
            ("store", "stores", "st"),
            ("wgmma", "wgmma", "gmma"),
        )
    ),
    *(
        Metric(
            f"dram_{access}_bytes",
            f"bytes of DRAM {access}s",
            "byte",
            (f"dram__bytes_{access}.sum",),
            "memory-traffic",
            # How much of a small output is still in the L2 at the end is chance: up to 8% of the writes.
            scale="dram_read_bytes",
        )
        for access in ("read", "write")
    ),
    Metric(
        "tma_load_bytes",
        "bytes of TMA loads",
        "byte",
        ("l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum",),
        "memory-traffic",
    ),
    Metric(
        "tma_store_bytes",
        "bytes of TMA stores",
        "byte",
        ("l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum",),
        "memory-traffic",
    ),
    Metric("instructions", "warp instructions", "inst", ("sm__inst_executed.sum",), "instructions"),
)


def resolve(metric: Metric, listed: Collection[str]) -> str | None:
    """The first of its names that ncu has for the chip; None if it has none.

    `listed`: without what is appended to counters (`.sum`).
    """
    return next((name for name in metric.names if name.partition(".")[0] in listed), None)
