"""Limits of the gate, ``[gate]`` of ``ci/matrix.toml``: what may get slower or larger, and on what evidence."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime

from fa3_matrix.matrix._toml import Table

ANY = "*"


@dataclass(frozen=True)
class MarginRow:
    """A row of ``margins``: another margin for a whole suite or, which comes first, for one problem.

    Exactly one of ``suite`` and ``problem`` (its id) is given. ``reason``: why this margin.
    """

    suite: str | None
    problem: str | None
    margin: float
    reason: str


@dataclass(frozen=True)
class GateLimits:
    """``[gate]``: what the comparison of two arms' times is held to.

    Shares are of 1: 0.005 is half a percent. A ratio is head's time over base's, above 1 when head is slower.

    - ``margin``: a slowdown up to this never fails, ``H0: ratio <= 1 + margin``.
    - ``budget``: a cell passes only where the upper bound of its ratio is at most ``1 + budget``; between the
      two it is inconclusive. A cell whose own margin is larger is held to that instead.
    - ``alpha``: chance at which a run without a regression may fail, over all its cells together.
    - ``control_alpha``: likewise, for the controls to void a run of a sound harness.
    - ``screen_trials``: trials of every cell; ``confirm_trials``: fresh ones of the cells that these flag.
    - ``pairs``: of a cell in a trial.
    - ``most_dropped``: share of a cell's pairs that may be dropped before it is inconclusive.
    """

    margin: float
    budget: float
    alpha: float
    control_alpha: float
    screen_trials: int
    confirm_trials: int
    pairs: int
    most_dropped: float
    margins: tuple[MarginRow, ...] = ()

    def margin_of(self, suite: str, problem: str) -> float:
        """The margin of one cell: its problem's row, else its suite's, else ``margin``."""
        by_problem = (row.margin for row in self.margins if row.problem == problem)
        by_suite = (row.margin for row in self.margins if row.suite == suite)
        return next(by_problem, next(by_suite, self.margin))

    def budget_of(self, suite: str, problem: str) -> float:
        """The budget of one cell: no smaller than its margin."""
        return max(self.budget, self.margin_of(suite, problem))


@dataclass(frozen=True)
class StaticLimits:
    """``[gate.static]``: what a build is held to without a GPU.

    - ``sass_growth``: share by which a kernel's SASS instructions may grow, head over base.
    - ``wheel_bytes``: size of a cell's wheel.
    - ``build_seconds``: wall time of a cell's build; ``build_growth``: share by which its compile time may grow.
    - ``compiler_bytes``: peak memory of one compiler process.
    """

    sass_growth: float
    wheel_bytes: int
    build_seconds: int
    build_growth: float
    compiler_bytes: int


@dataclass(frozen=True)
class GateWaiver:
    """``[[gate.waivers]]``: one static rule that a cell may break, until the end of the day ``expires``.

    ``cell`` and ``variant`` are exact names or ``*`` for all; ``variant`` left out is ``*``.
    """

    cell: str
    variant: str
    rule: str
    reason: str
    expires: date

    def covers(self, cell: str, variant: str, rule: str) -> bool:
        return self.cell in (cell, ANY) and self.variant in (variant, ANY) and self.rule == rule

    def expired(self, today: date) -> bool:
        return today > self.expires


def read_gate(
    root: Table, cells: Collection[str], variants: Collection[str], suites: Collection[str]
) -> tuple[GateLimits, StaticLimits, tuple[GateWaiver, ...]]:
    """Read ``[gate]`` of the file; names in it must be among ``cells``, ``variants`` and ``suites``.

    Raises:
        MatrixError: names the line.
    """
    gate = root.table("gate")
    limits = _limits(gate, suites)
    static = _static(gate.table("static"))
    waivers = tuple(_waiver(row, cells, variants) for row in gate.tables("waivers"))
    gate.done()
    return limits, static, waivers


def _limits(gate: Table, suites: Collection[str]) -> GateLimits:
    limits = GateLimits(
        margin=_share(gate, "margin"),
        budget=_share(gate, "budget"),
        alpha=_share(gate, "alpha"),
        control_alpha=_share(gate, "control_alpha"),
        # Of one trial there is no variance; half the pairs start with each arm.
        screen_trials=gate.integer("screen_trials", 2),
        confirm_trials=gate.integer("confirm_trials", 2),
        pairs=gate.integer("pairs", 2),
        most_dropped=_share(gate, "most_dropped"),
        margins=tuple(_margin(row, suites) for row in gate.tables("margins")),
    )
    for key in ("alpha", "control_alpha"):
        if getattr(limits, key) == 0:
            gate.fail(f"{key} = 0: nothing could ever be rejected; state a chance above 0", key)
    if limits.budget < limits.margin:
        gate.fail(
            f"budget = {limits.budget} is below margin = {limits.margin}: "
            "what may not fail would not pass",
            "budget",
        )
    for kind in ("suite", "problem"):
        names = [name for row in limits.margins if (name := getattr(row, kind)) is not None]
        for name in names:
            if names.count(name) > 1:
                gate.fail(f"margins has two rows for {kind} {name!r}; leave one", "margins")
    return limits


def _margin(row: Table, suites: Collection[str]) -> MarginRow:
    if ("suite" in row) == ("problem" in row):
        row.fail("a margin is of a suite or of a problem; give exactly one of the two")
    suite = row.choice("suite", tuple(suites)) if "suite" in row else None
    problem = row.string("problem") if "problem" in row else None
    margin = MarginRow(suite, problem, _share(row, "margin"), row.string("reason"))
    row.done()
    return margin


def _static(table: Table) -> StaticLimits:
    limits = StaticLimits(
        sass_growth=_share(table, "sass_growth"),
        wheel_bytes=table.integer("wheel_bytes", 1),
        build_seconds=table.integer("build_seconds", 1),
        build_growth=_share(table, "build_growth"),
        compiler_bytes=table.integer("compiler_bytes", 1),
    )
    table.done()
    return limits


def _waiver(table: Table, cells: Collection[str], variants: Collection[str]) -> GateWaiver:
    cell = table.choice("cell", (*cells, ANY))
    variant = table.choice("variant", (*variants, ANY)) if "variant" in table else ANY
    expires = table.take("expires")
    if not isinstance(expires, date) or isinstance(expires, datetime):
        table.fail(f"expires = {expires!r}: must be a date such as 2030-01-31", "expires")
    waiver = GateWaiver(cell, variant, table.string("rule"), table.string("reason"), expires)
    table.done()
    return waiver


def _share(table: Table, key: str) -> float:
    value = table.take(key)
    if not isinstance(value, float | int) or isinstance(value, bool) or not 0 <= value < 1:
        table.fail(f"{key} = {value!r}: must be a share, a number from 0 to below 1", key)
    return float(value)
