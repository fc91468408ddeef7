"""What the probes found on one machine, and the file that holds it."""

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from fa3_matrix import _json
from fa3_matrix.errors import Fa3Error

KIND = "fa3-matrix migrate behaviour"


class Status(StrEnum):
    """How the run of a probe ended. The values are stable."""

    OBSERVED = "observed"
    NOT_RUN = "not-run"  # the probe could not ask its question: there is no device
    FAILED = "failed"  # it crashed, took too long, or said nothing


@dataclass(frozen=True)
class Run:
    """One probe of one toolkit.

    Args:
        toolkit: "12.4".
        observed: answer to each case, in the order in which they were asked; empty if it was not observed.
        measured: numbers by names that end in their unit ("cudaFree, ms"); nothing to compare toolkits by.
        reason: why nothing was observed.
    """

    toolkit: str
    status: Status
    observed: dict[str, str] = dataclasses.field(default_factory=dict)
    measured: dict[str, float] = dataclasses.field(default_factory=dict)
    reason: str | None = None


@dataclass(frozen=True)
class Probed:
    """A probe, as the catalogue has it, and its run with each toolkit, the older one first."""

    name: str
    question: str
    documented: str
    url: str
    runs: tuple[Run, ...]

    @property
    def differs(self) -> bool:
        """Whether the toolkits were observed to behave differently."""
        observed = [run.observed for run in self.runs if run.status is Status.OBSERVED]
        return len(observed) == len(self.runs) and any(one != observed[0] for one in observed)


@dataclass(frozen=True)
class Built:
    """A toolkit whose probes were compiled. ``release``: "12.4.131"; ``library``: file name of its libcudart."""

    version: str
    release: str
    library: str


@dataclass(frozen=True)
class Observations:
    """All probes on one machine.

    Args:
        gpu: the first GPU's name; None: none was found.
        driver: release of the kernel module ("580.95.05"); driver_cuda: the CUDA version it supports ("13.0");
            None: there is no driver.
        toolkits: the older one first.
    """

    gpu: str | None
    driver: str | None
    driver_cuda: str | None
    toolkits: tuple[Built, ...]
    probes: tuple[Probed, ...]


def write(path: Path, observations: Observations) -> None:
    """Write ``behaviour.json``."""
    _json.write_atomic(path, {"kind": KIND, **dataclasses.asdict(observations)})


def read(path: Path) -> Observations:
    """Read ``behaviour.json``.

    Raises:
        Fa3Error: it is missing, damaged, or another kind of file.
    """
    data = _json.read(path)
    if data.get("kind") != KIND:
        raise Fa3Error(
            f"{path}: its kind is {data.get('kind')!r}, not {KIND!r}; "
            "`python -m fa3_matrix.migrate.probes run` writes one"
        )
    try:
        return Observations(
            data["gpu"],
            data["driver"],
            data["driver_cuda"],
            tuple(Built(**built) for built in data["toolkits"]),
            tuple(_probed(probe) for probe in data["probes"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Fa3Error(f"{path}: damaged ({error}); write the file again") from error


def _probed(data: dict[str, Any]) -> Probed:
    runs = (Run(**{**run, "status": Status(run["status"])}) for run in data["runs"])
    return Probed(**{**data, "runs": tuple(runs)})
