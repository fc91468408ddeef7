"""Trial documents, read and checked: one fresh process that timed both arms, interleaved.

A trial is the unit of replication. Of each cell it yields one number, the median of its pairs' log ratios: pairs of
one process share its offsets (placement, temperature), so they are not samples of their own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from fa3_matrix.errors import Fa3Error

SCHEMA = 1
STAGES = ("screen", "confirm", "calibrate")
ARMS = ("base", "head")
MODES = ("cold", "hot")
CONTROLS = ("twin", "same-sass")

FloatArray = NDArray[np.float64]


class TrialError(Fa3Error):
    """A trial document is malformed; names the document and the entry."""


class CellKey(NamedTuple):
    """What identifies a cell in every document of a run.

    ``problem``: its id. ``control``: ``None``; ``"twin"`` where both arms are the base, loaded twice;
    ``"same-sass"`` where the arms' kernels are instruction for instruction the same.
    """

    suite: str
    problem: str
    mode: str
    control: str | None = None

    def __str__(self) -> str:
        control = f", {self.control}" if self.control else ""
        return f"{self.suite}/{self.problem} ({self.mode}{control})"


@dataclass(frozen=True)
class Arm:
    """One of the two builds compared."""

    name: str
    cell: str
    manifest_sha256: str


@dataclass(frozen=True)
class Machine:
    """What a trial ran on; trials of one run agree in all of it."""

    name: str
    uuid: str
    driver: str
    torch: str


@dataclass(frozen=True)
class TrialCell:
    """A cell's pairs in one trial, in the order taken.

    ``base_ns``, ``head_ns``: device time of one call. ``head_first``: which pairs timed head first. ``dropped``: why
    a pair does not count, or ``None``. ``failed``: why there are no pairs, or ``None``.
    """

    key: CellKey
    label: str
    failed: str | None
    head_first: NDArray[np.bool_]
    base_ns: FloatArray
    head_ns: FloatArray
    dropped: tuple[str | None, ...]

    @cached_property
    def kept(self) -> NDArray[np.bool_]:
        return np.array([why is None for why in self.dropped], dtype=np.bool_)

    @cached_property
    def log_ratios(self) -> FloatArray:
        """log(head / base) of the kept pairs; above 0 head is slower."""
        ratios: FloatArray = np.log(self.head_ns[self.kept] / self.base_ns[self.kept])
        return ratios

    @property
    def statistic(self) -> float:
        """The trial's one number: the median log ratio, NaN where no pair was kept."""
        return _median(self.log_ratios)

    @property
    def drop_reasons(self) -> Counter[str]:
        return Counter(why for why in self.dropped if why is not None)

    @property
    def order_effect(self) -> float:
        """Median log ratio of the pairs that timed head first, less that of the others.

        Above 0: whichever arm comes first looks slower. A diagnostic alone, for the order is drawn pair by pair;
        NaN where every pair had the same order.
        """
        first = self.head_first[self.kept]
        return _median(self.log_ratios[first]) - _median(self.log_ratios[~first])


@dataclass(frozen=True)
class Trial:
    """One document."""

    source: str
    stage: str
    number: int
    seed: int
    started: datetime
    base: Arm
    head: Arm
    machine: Machine
    cells: dict[CellKey, TrialCell]


def by_cell(trials: Sequence[Trial]) -> dict[CellKey, list[TrialCell]]:
    """The trials' entries of each cell, cells in the order first met."""
    cells: dict[CellKey, list[TrialCell]] = {}
    for trial in trials:
        for key, cell in trial.cells.items():
            cells.setdefault(key, []).append(cell)
    return cells


def read_trial(document: Mapping[str, Any], source: str) -> Trial:
    """Read one parsed document; ``source`` (a file's name) is what errors call it.

    Raises:
        TrialError: an entry is missing, has another type or contradicts another.
    """
    entry = _Entry(document, source)
    entry.choice("schema", (SCHEMA,))
    entry.choice("kind", ("trial",))
    try:
        started = datetime.fromisoformat(entry.take("started", str))
    except ValueError:
        entry.fail("started", "must be a time such as 2030-01-31T22:00:00+00:00")
    if started.tzinfo is None:
        entry.fail("started", "must state its offset from UTC")
    # Of all that the process loaded: other heads and a twin of base may be among them.
    if len(entry.column("load_order", str)) < len(ARMS):
        entry.fail("load_order", "must hold both arms")
    arms = entry.entry("arms")
    machine = entry.entry("gpu")
    cells: dict[CellKey, TrialCell] = {}
    for index, raw in enumerate(entry.take("cells", list)):
        cell = _cell(_Entry(raw, f"{source}: cells[{index}]"))
        if cell.key in cells:
            entry.fail("cells", f"holds {cell.key} twice")
        cells[cell.key] = cell
    return Trial(
        source=source,
        stage=entry.choice("stage", STAGES),
        number=entry.take("number", int),
        seed=entry.take("seed", int),
        started=started,
        base=_arm(arms.entry("base")),
        head=_arm(arms.entry("head")),
        machine=Machine(**{key: machine.text(key) for key in ("name", "uuid", "driver", "torch")}),
        cells=cells,
    )


def _median(values: FloatArray) -> float:
    return float(np.median(values)) if len(values) else float("nan")


def _arm(entry: "_Entry") -> Arm:
    return Arm(entry.text("name"), entry.text("cell"), entry.text("manifest_sha256"))


def _cell(entry: "_Entry") -> TrialCell:
    key = CellKey(
        entry.text("suite"),
        entry.text("problem"),
        entry.choice("mode", MODES),
        entry.choice("control", (None, *CONTROLS)),
    )
    failed = entry.take("failed", str | None)
    if failed is None:
        pairs = entry.entry("pairs")
        first = pairs.column("first", str, ARMS)
        if not first:
            pairs.fail("first", "holds no pair; a cell that was not timed states failed")
        times = {arm: pairs.column(f"{arm}_ns", int | float, length=len(first)) for arm in ARMS}
        for arm, values in times.items():
            if not all(0 < value < float("inf") for value in values):
                pairs.fail(f"{arm}_ns", "must hold finite times above 0")
        for reading in ("base_mhz", "head_mhz", "watts", "celsius"):
            pairs.column(reading, int | float | None, length=len(first))
        dropped = pairs.column("dropped", str | None, length=len(first))
    else:
        first, dropped, times = [], [], {arm: [] for arm in ARMS}
    return TrialCell(
        key=key,
        label=entry.text("label"),
        failed=failed,
        head_first=np.array([arm == "head" for arm in first], dtype=np.bool_),
        base_ns=np.array(times["base"], dtype=np.float64),
        head_ns=np.array(times["head"], dtype=np.float64),
        dropped=tuple(dropped),
    )


class _Entry:
    """An object of a document, whose values are taken with their types checked."""

    def __init__(self, data: Any, path: str) -> None:
        self._path = path
        if not isinstance(data, Mapping):
            raise TrialError(f"{path}: must be an object, is {type(data).__name__}")
        self._data = data

    def fail(self, key: str, message: str) -> NoReturn:
        raise TrialError(f"{self._path}: {key} {message}; write the trial again")

    def take(self, key: str, kind: Any) -> Any:
        if key not in self._data:
            self.fail(key, "is missing")
        value = self._data[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            name = getattr(kind, "__name__", str(kind))
            self.fail(key, f"= {value!r}: must be of type {name}")
        return value

    def text(self, key: str) -> str:
        value: str = self.take(key, str)
        if not value:
            self.fail(key, "is empty")
        return value

    def choice(self, key: str, allowed: Sequence[Any]) -> Any:
        value = self.take(key, object)
        if value not in allowed:
            self.fail(key, f"= {value!r}: must be one of {', '.join(map(str, allowed))}")
        return value

    def entry(self, key: str) -> "_Entry":
        return _Entry(self.take(key, object), f"{self._path}: {key}")

    def column(
        self, key: str, kind: Any, allowed: Sequence[str] = (), length: int | None = None
    ) -> list[Any]:
        values: list[Any] = self.take(key, list)
        if length is not None and len(values) != length:
            self.fail(key, f"has {len(values)} entries, first has {length}")
        for value in values:
            if not isinstance(value, kind) or isinstance(value, bool):
                self.fail(key, f"holds {value!r}")
            if allowed and value not in allowed:
                self.fail(key, f"holds {value!r}: must be among {', '.join(allowed)}")
        return values
