"""What a trial is to time: a JSON file, so that each trial's process is told exactly."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from fa3_matrix import _json
from fa3_matrix.bench.problems import Problem

Mode = Literal["cold", "hot"]
Control = Literal["twin", "same-sass"]

# Every so many cells have a twin, the first one among them.
TWIN_EVERY = 10


@dataclass(frozen=True)
class PlannedCell:
    """A problem of a suite, to be timed by base and heads; or as a control, which see `fa3_matrix.bench.trial`."""

    suite: str
    problem: str
    control: Control | None = None


@dataclass(frozen=True)
class Plan:
    """What a trial is of.

    Args:
        base: a build folder; base_name: what documents call it.
        heads: build folders by the names that documents call them.
        mode: of the L2 cache.
        number: of the trial in its stage.
        seed: of all that the trial draws.
        pairs: of each cell.
    """

    base: Path
    base_name: str
    heads: Mapping[str, Path]
    cells: Sequence[PlannedCell]
    stage: str
    pairs: int
    mode: Mode = "cold"
    number: int = 0
    seed: int = 0

    def trial(self, number: int, seed: int) -> "Plan":
        """The plan of one trial of those that this one stands for."""
        return replace(self, number=number, seed=seed)

    def as_json(self) -> dict[str, Any]:
        folders = {name: str(folder) for name, folder in self.heads.items()}
        return {**asdict(self), "base": str(self.base), "heads": folders}

    @classmethod
    def read(cls, path: Path) -> "Plan":
        """Read what `as_json` gave. Raises Fa3Error."""
        data = _json.read(path)
        del data["schema"]
        data["base"] = Path(data["base"])
        data["heads"] = {name: Path(folder) for name, folder in data["heads"].items()}
        data["cells"] = [PlannedCell(**cell) for cell in data["cells"]]
        return cls(**data)


def twins(problems: Sequence[tuple[str, Problem]]) -> list[PlannedCell]:
    """The controls that ride along with `problems`, which are given with their suites."""
    return [PlannedCell(suite, problem.id, "twin") for suite, problem in problems[::TWIN_EVERY]]
