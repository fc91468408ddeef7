"""How full a launch makes the GPU.

theoretical: resident warps of an SM over the warps it can hold, by the audit's occupancy of the variant.
launch: theoretical times the share of CTA slots that the grid fills over all its waves, CTAs taken as equally long:
330 CTAs on 132 SMs of one slot each are 2.5 waves, which take the time of 3 and fill 5/6 of the slots.
"""

from dataclasses import asdict, dataclass
from typing import Any

from fa3_matrix.bench.problems import Problem
from fa3_matrix.build import VariantRecord
from fa3_matrix.build.occupancy import limits


@dataclass(frozen=True)
class LaunchOccupancy:
    """`theoretical` and `launch` as fractions of an SM's warps; `ctas` of the grid; `waves` that they make."""

    theoretical: float
    launch: float
    ctas: int
    waves: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def launch_occupancy(
    variant: VariantRecord, problem: Problem, capability: tuple[int, int], sms: int
) -> LaunchOccupancy:
    """Occupancy of the launch that computes `problem` by `variant` on a GPU of `sms` SMs.

    Of split keys what `problem` asks for counts; splits that the library chooses by itself (num_splits 0) as one.

    Raises KeyError for a compute capability whose limits are not known.
    """
    theoretical = variant.occupancy.warps_per_sm / limits(capability).warps
    rows, heads, splits = problem.max_seqlen_q, problem.heads_q, 1
    if variant.splits_keys:
        # Its rows are (query, head of the group) pairs.
        rows, heads = rows * problem.heads_q // problem.heads_k, problem.heads_k
        key_blocks = -(-problem.max_seqlen_k // variant.block_n)
        splits = max(min(problem.num_splits, key_blocks), 1)
    m_blocks = max(-(-rows // variant.block_m), 1)
    ctas = m_blocks * heads * problem.batch * splits
    slots = sms * variant.occupancy.ctas_per_sm
    full_waves = -(-ctas // slots)
    filled = ctas / (full_waves * slots) if ctas else 0.0
    return LaunchOccupancy(theoretical, theoretical * filled, ctas, ctas / slots)
