"""The harness, tested on cells where nothing can differ: twins, and kernels of equal SASS."""

from collections.abc import Sequence
from dataclasses import dataclass

from fa3_matrix.gate.completeness import Expected
from fa3_matrix.gate.stage import Stage
from fa3_matrix.gate.statistics import holm
from fa3_matrix.gate.trials import CellKey
from fa3_matrix.matrix.gate import GateLimits


@dataclass(frozen=True)
class ControlTest:
    """One control in one stage: two-sided p for H0: ratio = 1, and Holm's adjustment over all controls and stages.

    Both are ``None`` where too many pairs were dropped. ``rejected``: it differs, which voids the run.
    """

    stage: Stage
    key: CellKey
    p: float | None
    p_adjusted: float | None
    rejected: bool


def check(stages: Sequence[Stage], expected: Expected, limits: GateLimits) -> list[ControlTest]:
    """Test all controls in each stage by itself: a fault may begin between them."""
    tested = [(stage, key, stage.p_two_sided(key)) for stage in stages for key in expected.controls]
    adjusted = iter(holm([p for _, _, p in tested if p is not None]).tolist())
    results = []
    for stage, key, p in tested:
        p_adjusted = None if p is None else next(adjusted)
        rejected = p_adjusted is not None and p_adjusted <= limits.control_alpha
        results.append(ControlTest(stage, key, p, p_adjusted, rejected))
    return results
