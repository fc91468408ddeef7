"""Nsight Compute's command line: where it is, which metrics it has, what it counted."""

import csv
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fa3_matrix.errors import BenchError

# Where a toolkit puts it, which is not always on PATH.
_TOOLKITS_OWN = Path("/usr/local/cuda/bin/ncu")
# Of what ncu said in failing.
_MOST_CHARACTERS = 2000

CLOCK_CONTROL = "none"
# Each pass then finds the caches cold, whichever pass and arm came before.
CACHE_CONTROL = "all"

# What makes counters unreadable, by what ncu says of it, and what to do.
_OBSTACLES = {
    "ERR_NVGPUCTRPERM": (
        "this user may not read the GPU's counters (ERR_NVGPUCTRPERM): run as root, in a container with "
        "--cap-add=SYS_ADMIN, or have the driver loaded with NVreg_RestrictProfilingToAdminUsers=0"
    ),
    "LibraryNotLoaded": (
        "ncu cannot load the driver's library for counters (LibraryNotLoaded): install the driver whole, and start a "
        "container with NVIDIA_DRIVER_CAPABILITIES=all"
    ),
    "driver resource was unavailable": (
        "something else holds the GPU's counters: end other profilers, and pause DCGM (dcgmi profiling --pause)"
    ),
    "Driver could not be loaded": "ncu finds no NVIDIA driver",
}


@dataclass(frozen=True)
class Launch:
    """One kernel launch as ncu counted it.

    `values`: by ncu's name of the metric, as printed. `block` and `grid` as "(128, 1, 1)".
    """

    kernel: str
    block: str
    grid: str
    values: dict[str, str]

    def value(self, name: str) -> float | str:
        """A metric's value, or why there is none."""
        text = self.values.get(name)
        # ncu gives what it cannot count no column, and says nothing of it.
        if text is None:
            return f"ncu printed no {name}"
        try:
            number = float(text.replace(",", ""))
        except ValueError:
            return f"ncu printed {text!r}"
        # NaN and infinity are ncu's for a ratio over 0.
        return number if abs(number) < float("inf") else f"ncu printed {text!r}"


@dataclass(frozen=True)
class Ncu:
    """An installed Nsight Compute."""

    program: Path
    version: str

    @classmethod
    def find(cls, program: str | None = None) -> "Ncu":
        """The one named, else that on PATH, else the toolkit's. Raises BenchError when there is none."""
        found = shutil.which(program or "ncu")
        if found is None and program is None and _TOOLKITS_OWN.is_file():
            found = str(_TOOLKITS_OWN)
        if found is None:
            raise BenchError(
                f"no Nsight Compute at {program}"
                if program
                else "Nsight Compute's ncu is not on PATH: install it (CUDA toolkits bring it), or name it by --ncu"
            )
        said = _run([found, "--version"])
        version = re.search(r"^Version (\d+(?:\.\d+)*)", said, re.MULTILINE)
        if version is None:
            raise BenchError(f"{found} --version does not state one; it says:\n{_end(said)}")
        return cls(Path(found), version[1])

    def metric_names(self) -> frozenset[str]:
        """All that it has for this machine's first GPU, counters without what is appended to them (`.sum`)."""
        counters = names_in(_run([str(self.program), "--query-metrics", "--devices", "0"]))
        shown = names_in(_run([str(self.program), "--list-metrics", "--set", "full"]))
        # Occupancy and what else is computed stands only in the sections that show it, beside counters of all chips.
        return counters | {name for name in shown if "." not in name}

    def count(self, program: Sequence[str], metrics: Sequence[str], log: Path) -> list[Launch]:
        """Run `program` and count `metrics` of each kernel of ours between its profiler's start and stop.

        What ncu prints stays in `log`. Raises BenchError when it could not count.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [
            str(self.program),
            *("--profile-from-start", "off", "--target-processes", "application-only"),
            *("--kernel-name-base", "function", "--kernel-name", "regex:^fa3_"),
            *("--clock-control", CLOCK_CONTROL, "--cache-control", CACHE_CONTROL),
            *("--metrics", ",".join(metrics)),
            *("--csv", "--page", "raw", "--print-units", "base"),
            *("--print-kernel-base", "function", "--log-file", str(log)),
            *program,
        ]
        done = subprocess.run(
            command,
            # Numbers and words as they are read here, in any user's locale.
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=False,
        )
        said = log.read_text(encoding="utf-8") if log.is_file() else ""
        if done.returncode:
            raise BenchError(_obstacle(f"{said}\n{done.stdout}\n{done.stderr}"))
        return read_launches(said)


def names_in(listing: str) -> frozenset[str]:
    """The metrics of a listing: first words of lines; what continues a description is indented."""
    return frozenset(re.findall(r"^\w\S*__\w+\S*", listing, re.MULTILINE))


def read_launches(text: str) -> list[Launch]:
    """The launches in ncu's CSV of its raw page, in order; lines of its own, which begin with "==", stand around it.

    Raises BenchError when no kernel was profiled, or rows are not as wide as the header.
    """
    lines = [line for line in text.splitlines() if line.startswith('"')]
    if not lines:
        raise BenchError(f"ncu profiled no kernel; it says:\n{_end(text)}")
    header, *rows = csv.reader(lines)
    if any(len(row) != len(header) for row in rows):
        raise BenchError(f"ncu's table has rows of another width than its header of {len(header)}")
    records = [dict(zip(header, row, strict=True)) for row in rows]
    return [
        Launch(
            record["Kernel Name"],
            record["Block Size"],
            record["Grid Size"],
            {name: record[name] for name in header if "__" in name},
        )
        for record in records
        # A row of units comes first; base units are what was asked for.
        if record["ID"]
    ]


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(_obstacle(done.stdout + done.stderr))
    return done.stdout


def _obstacle(said: str) -> str:
    for sign, advice in _OBSTACLES.items():
        if sign in said:
            return advice
    return f"ncu failed; it says:\n{_end(said)}"


def _end(said: str) -> str:
    return said.strip()[-_MOST_CHARACTERS:]
