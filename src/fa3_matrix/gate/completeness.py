"""What a run was to measure, and how the trials at hand fall short of it. Whatever is missing fails closed."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fa3_matrix.gate.trials import Arm, CellKey, Trial
from fa3_matrix.matrix.gate import GateLimits


@dataclass(frozen=True)
class Expected:
    """What the runner set out to measure, stated before any trial.

    ``cells``: all that each screening trial is to time, the controls among them (one at least: a harness that nothing
    checks is no harness). ``no_pair``: cells that an arm is known not to have, and why; they are listed, not judged.
    """

    base: Arm
    head: Arm
    cells: tuple[CellKey, ...]
    no_pair: Mapping[CellKey, str] = field(default_factory=dict)

    @property
    def judged(self) -> tuple[CellKey, ...]:
        return tuple(key for key in self.cells if key.control is None)

    @property
    def controls(self) -> tuple[CellKey, ...]:
        return tuple(key for key in self.cells if key.control is not None)


def shortfalls(expected: Expected) -> Iterator[str]:
    """What is wrong with the plan itself."""
    if all(key.control == "twin" for key in expected.cells):
        yield "no cell has both arms: there is nothing to judge"
    if not expected.controls:
        yield "no control is planned, so nothing would show a harness that misleads"
    for key, count in Counter(expected.cells).items():
        if count > 1:
            yield f"{key} is planned {count} times"
    for key in expected.no_pair:
        if key in expected.cells:
            yield f"{key} is planned and stated to have no pair"


def gaps(
    stage: str,
    trials: Sequence[Trial],
    count: int,
    cells: Collection[CellKey],
    expected: Expected,
    limits: GateLimits,
) -> Iterator[str]:
    """How ``trials`` differ from ``count`` trials of ``stage`` that time exactly ``cells``."""
    if len(trials) != count:
        yield f"{stage}: {len(trials)} trials, the limits ask for {count}"
    for trial in trials:
        if trial.stage != stage:
            yield f"{trial.source} is a trial of stage {trial.stage!r}, given as {stage!r}"
        for name in ("base", "head"):
            arm, asked = getattr(trial, name), getattr(expected, name)
            if arm != asked:
                yield f"{trial.source}: {name} is {arm}, not {asked}"
        yield from _gaps_of_cells(trial, cells, expected, limits)


def _gaps_of_cells(
    trial: Trial, cells: Collection[CellKey], expected: Expected, limits: GateLimits
) -> Iterator[str]:
    planned = dict.fromkeys(cells)  # a set that keeps its order
    for key in planned:
        cell = trial.cells.get(key)
        if cell is None:
            yield f"{trial.source}: {key} is missing"
        elif cell.failed is not None:
            yield f"{trial.source}: {key} was not timed: {cell.failed}"
        elif len(cell.dropped) < limits.pairs:
            yield (
                f"{trial.source}: {key} has {len(cell.dropped)} pairs, "
                f"the limits ask for {limits.pairs}"
            )
    for key, cell in trial.cells.items():
        excused = key in expected.no_pair and cell.failed is not None
        if key not in planned and not excused:
            yield f"{trial.source}: {key} is not part of this stage's plan"


def contradictions(screen: Sequence[Trial], confirm: Sequence[Trial]) -> Iterator[str]:
    """Trials that are not of one machine, not independent of each other, or not fresh."""
    trials = [*screen, *confirm]
    for trial in trials[1:]:
        if trial.machine != trials[0].machine:
            yield f"{trial.source} ran on {trial.machine}, {trials[0].source} on {trials[0].machine}"
    by_name: dict[str, list[str]] = {}
    for trial in trials:
        for name in (f"seed {trial.seed}", f"number {trial.number} of {trial.stage}"):
            by_name.setdefault(name, []).append(trial.source)
    for name, sources in by_name.items():
        if len(sources) > 1:
            yield f"{name} is shared by {', '.join(sources)}: one trial counted twice?"
    if screen and confirm:
        last, first = max(t.started for t in screen), min(t.started for t in confirm)
        if first <= last:
            yield f"a confirming trial began at {first}, before the last screening one at {last}"
