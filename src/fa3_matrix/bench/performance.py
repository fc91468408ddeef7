"""Times suites once, for everything that reports them: pytest-benchmark's tests and the results files."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from fa3_matrix.bench.builds import BuildArm
from fa3_matrix.bench.ceilings import Ceilings, measure_ceilings
from fa3_matrix.bench.comparison import row
from fa3_matrix.bench.figures import arm_figures, problem_figures
from fa3_matrix.bench.graphs import REPLAYS
from fa3_matrix.bench.layout import Layout
from fa3_matrix.bench.measure import Contender, Measurement, Outcome, measure
from fa3_matrix.bench.occupancy import launch_occupancy
from fa3_matrix.bench.peers import Peer
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.results import Document, first_line
from fa3_matrix.bench.timing import Clock
from fa3_matrix.build.manifest import ServesRecord, VariantRecord
from fa3_matrix.errors import BenchError

# Whose problems are captured and replayed too: their lengths change, which a captured graph must not mind.
GRAPH_SUITES = ("dynamic",)


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
    """Times builds, and peers beside them, on suites: each problem once, all arms interleaved.

    Args:
        builds: by cell.
        suites: problems by suite.
        peers: asked on the problems that they compute alike.
        rounds: samples of each arm.
        seed: of the order of arms.
        sms: of the GPU, for occupancies.
        device, clock: where and by which clock; a CPU and the host's serve for tests.
    """

    builds: dict[str, BuildArm]
    suites: dict[str, list[Problem]]
    rounds: int
    seed: int
    sms: int
    peers: Sequence[Peer] = ()
    device: str = "cuda"
    clock: Clock | None = None
    _ceilings: Ceilings | None = field(default=None, init=False)
    _outcomes: dict[str, Outcome] = field(default_factory=dict, init=False)

    @property
    def ceilings(self) -> Ceilings:
        """What every time of this run is a share of."""
        if self._ceilings is None:
            raise BenchError("nothing has been measured yet: call run() first")
        return self._ceilings

    def run(self, report: Callable[["Done"], None] = lambda _: None) -> None:
        """Measures the ceilings, then everything else; `report` is called after each problem."""
        order = random.Random(self.seed)
        self._ceilings = measure_ceilings(order, self.device, self.clock)
        problems = {problem.id: problem for suite in self.suites.values() for problem in suite}
        for problem in problems.values():
            outcome = self._measure(problem, order)
            self._outcomes[problem.id] = outcome
            report(Done(problem, outcome, len(self._outcomes), len(problems)))

    def _measure(self, problem: Problem, order: random.Random) -> Outcome:
        builds = [self.contender(arm) for arm in self.builds.values()]
        why_not = {peer.name: peer.why_not(problem) for peer in self.peers}
        peers = [Contender.of_peer(peer) for peer in self.peers if not why_not[peer.name]]
        is_graphed = any(problem in self.suites.get(suite, []) for suite in GRAPH_SUITES)
        try:
            outcome = measure(
                problem,
                [*builds, *peers],
                rounds=self.rounds,
                order=order,
                device=self.device,
                clock=self.clock,
                replays=REPLAYS if is_graphed else 0,
            )
        except RuntimeError as error:
            # Out of memory, say: the other problems may fit.
            reason = f"could not be timed: {first_line(error)}"
            outcome = Outcome({}, {contender.name: reason for contender in (*builds, *peers)})
        unasked = {name: reason for name, reason in why_not.items() if reason}
        return replace(outcome, not_timed={**unasked, **outcome.not_timed})

    def contender(self, arm: BuildArm) -> Contender:
        return Contender.of_build(arm)

    def entries(self) -> Iterator[tuple[str, str, Problem, Measurement]]:
        """(arm, suite, problem, measurement) of all that was timed, a problem's arms side by side."""
        for suite, problem, outcome in self._of_suites():
            for name, measurement in outcome.timed.items():
                yield name, suite, problem, measurement

    def row(self, name: str, suite: str, problem: Problem, measured: Measurement) -> Document:
        """One entry of ``results`` of "performance", see `fa3_matrix.bench.results`; of a peer what there is of it."""
        return {
            "suite": suite,
            **problem_figures(problem),
            **arm_figures(problem, measured, self.ceilings),
            "mode": measured.samples.mode,
            "rounds": len(measured.samples.seconds),
            "calls": measured.samples.calls,
            "sm_mhz": measured.sm_mhz,
            **(self._of_build(self.builds[name], problem) if name in self.builds else {}),
        }

    def _of_build(self, arm: BuildArm, problem: Problem) -> Document:
        variant = arm.variant(problem)
        low_major, low_minor = arm.manifest.capability_range[0]
        occupancy = launch_occupancy(variant, problem, (low_major, low_minor), self.sms)
        return {"variant": variant.name, "occupancy": occupancy.as_json()}

    def rows(self, cell: str) -> list[Document]:
        """``results`` of "performance" of one build."""
        return [self.row(*entry) for entry in self.entries() if entry[0] == cell]

    def peer_rows(self) -> list[Document]:
        """``results`` of "peers"."""
        return [
            row(suite, problem, list(self.builds), outcome, self.ceilings)
            for suite, problem, outcome in self._of_suites()
        ]

    def failures(self, cell: str) -> list[str]:
        """What went wrong with one build, one sentence a problem."""
        return [
            f"{problem}: {outcome.not_timed[cell]}"
            for problem, outcome in self._outcomes.items()
            if cell in outcome.not_timed
        ]

    def _of_suites(self) -> Iterator[tuple[str, Problem, Outcome]]:
        for suite, problems in self.suites.items():
            for problem in problems:
                yield suite, problem, self._outcomes[problem.id]


@dataclass(frozen=True)
class Done:
    """A problem that was just measured, the `count`-th of `total`."""

    problem: Problem
    outcome: Outcome
    count: int
    total: int
