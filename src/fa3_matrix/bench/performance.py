"""Times builds on suites once, for everything that reports them: pytest-benchmark's tests and the results files."""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from fa3_matrix.bench.builds import BuildArm
from fa3_matrix.bench.layout import Layout
from fa3_matrix.bench.measure import Contender, Measurement, Outcome, measure
from fa3_matrix.bench.occupancy import launch_occupancy
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.results import Document
from fa3_matrix.bench.timing import Clock
from fa3_matrix.build.manifest import ServesRecord, VariantRecord
from fa3_matrix.errors import BenchError


def variant_problems(builds: Iterable[BuildArm]) -> list[Problem]:
    """A problem for each set that a variant serves, of 2048 rows or the nearest in it: 8 sequences, hidden 2048."""
    problems = [
        _problem(variant, serves)
        for build in builds
        for variant in build.manifest.variants
        if not variant.candidate
        for serves in variant.serves
    ]
    return list({problem.id: problem for problem in problems}.values())


def _problem(variant: VariantRecord, serves: ServesRecord) -> Problem:
    # Of a set's layouts the first of: no pages, pages by TMA, then what TMA cannot load.
    preferred = ("aligned", "paged_aligned", "unaligned", "paged")
    layout = next(each for each in preferred if each in serves.layouts)
    is_cache = layout in ("paged_aligned", "paged")
    return Problem(
        dtype=variant.dtype,
        head_dim=variant.head_dim,
        heads_q=2048 // variant.head_dim,
        heads_k=2048 // variant.head_dim,
        batch=8,
        seqlen_q=_near_2048(serves.log2_seqlen_q),
        seqlen_k=_near_2048(serves.log2_seqlen_k),
        causal="full" not in serves.masks,
        window=(1024, 0) if serves.masks == ["local"] else (-1, -1),
        is_cache=is_cache,
        page_size=min(_near_2048(serves.log2_seqlen_k), 64) if is_cache else 0,
        num_splits=0 if variant.splits_keys else 1,
        # TMA can't broadcast, while 16-byte copies stay legal: the variant's usual path.
        layout_q=Layout(expand="b") if layout in ("unaligned", "paged") else Layout(),
    )


def _near_2048(log2_seqlen: Sequence[int]) -> int:
    low, high = log2_seqlen
    return int(2 ** min(max(11, low), high))


@dataclass
class Performance:
    """Measures each problem once, all builds interleaved, when the first of them is asked for.

    Args:
        builds: the arms, by cell.
        suites: problems by suite.
        device, clock: where and by which clock; a CPU and the host's serve for tests.
    """

    builds: dict[str, BuildArm]
    suites: dict[str, list[Problem]]
    rounds: int
    seed: int
    sms: int
    device: str = "cuda"
    clock: Clock | None = None
    _order: random.Random = field(init=False)
    _measured: dict[str, Outcome] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._order = random.Random(self.seed)

    def measurement(self, cell: str, problem: Problem) -> Measurement:
        """Of one build on one problem. Raises BenchError when it refused or its output was wrong."""
        if problem.id not in self._measured:
            self._measured[problem.id] = measure(
                problem,
                [self.contender(arm) for arm in self.builds.values()],
                rounds=self.rounds,
                order=self._order,
                device=self.device,
                clock=self.clock,
            )
        outcome = self._measured[problem.id]
        if cell in outcome.not_timed:
            raise BenchError(f"{cell} is not timed on {problem.id}: {outcome.not_timed[cell]}")
        return outcome.timed[cell]

    def contender(self, arm: BuildArm) -> Contender:
        return Contender.of_build(arm)

    def row(self, cell: str, suite: str, problem: Problem) -> Document:
        """One entry of ``results``; see `fa3_matrix.bench.results`."""
        m = self.measurement(cell, problem)
        arm = self.builds[cell]
        variant = arm.variant(problem)
        low_major, low_minor = arm.manifest.capability_range[0]
        occupancy = launch_occupancy(variant, problem, (low_major, low_minor), self.sms)
        return {
            "problem": problem.id,
            "name": problem.label,
            "suite": suite,
            "variant": variant.name,
            "median_us": m.samples.median * 1e6,
            "spread": m.samples.spread,
            "tflops": problem.flops() / m.samples.median * 1e-12,
            "gb_per_s": problem.min_bytes() / m.samples.median * 1e-9,
            "launch_us": m.launch_seconds * 1e6,
            "mode": m.samples.mode,
            "rounds": len(m.samples.seconds),
            "calls": m.samples.calls,
            "occupancy": occupancy.as_json(),
            "sm_mhz": m.sm_mhz,
        }

    def rows(self, cell: str) -> Iterator[Document]:
        """The rows of everything measured so far without an error."""
        for suite, problems in self.suites.items():
            for problem in problems:
                outcome = self._measured.get(problem.id)
                if outcome and cell in outcome.timed:
                    yield self.row(cell, suite, problem)

    def failures(self, cell: str) -> list[str]:
        """What went wrong with one build, one sentence a problem."""
        return [
            f"{problem}: {outcome.not_timed[cell]}"
            for problem, outcome in self._measured.items()
            if cell in outcome.not_timed
        ]
