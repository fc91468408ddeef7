"""What was measured of one arm on one problem, as every results file has it. Needs no torch."""

from typing import TYPE_CHECKING

from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.results import Document

if TYPE_CHECKING:
    from fa3_matrix.bench.ceilings import Ceilings
    from fa3_matrix.bench.measure import Measurement


def arm_figures(problem: Problem, measured: "Measurement", ceilings: "Ceilings") -> Document:
    """The keys that ``results`` of "performance" and ``arms`` of "peers" share; see `fa3_matrix.bench.results`."""
    median = measured.samples.median
    tflops = problem.flops() / median * 1e-12
    gb_per_s = problem.min_bytes() / median * 1e-9
    return {
        "median_us": median * 1e6,
        "spread": measured.samples.spread,
        "tflops": tflops,
        "gb_per_s": gb_per_s,
        "of_gemm": tflops / ceilings.gemm_tflops,
        "of_copy": gb_per_s / ceilings.copy_gb_per_s,
        "launch_us": measured.launch.host * 1e6,
        "idle_us": measured.launch.idle * 1e6,
        "memory": measured.memory and measured.memory.as_json(),
        "graph": measured.replays and measured.replays.as_json(),
    }


def problem_figures(problem: Problem) -> Document:
    """What a row says of its problem."""
    return {
        "problem": problem.id,
        "name": problem.label,
        "flops": problem.flops(),
        "bytes": problem.min_bytes(),
    }
