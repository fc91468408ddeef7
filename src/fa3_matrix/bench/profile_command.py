"""``python -m fa3_matrix.bench profile``: hardware counters of builds, through Nsight Compute."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fa3_matrix.bench import machine, profile, results
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.profile_metrics import METRICS
from fa3_matrix.bench.profile_ncu import CACHE_CONTROL, CLOCK_CONTROL, Ncu
from fa3_matrix.bench.results import Document
from fa3_matrix.bench.session import (
    Session,
    add_arguments,
    build_folder,
    header,
    names,
    only,
    open_session,
    say,
    why_not_on,
)
from fa3_matrix.bench.suites import suite_problems
from fa3_matrix.build import Manifest
from fa3_matrix.errors import BenchError

if TYPE_CHECKING:
    from fa3_matrix.bench.builds import BuildArm

# What a log, which has no width of its own, shows a line in.
_LOG_WIDTH = 180
# Of the printed table. Title: keys that add up, what they are divided by, format.
_COLUMNS: dict[str, tuple[tuple[str, ...], float, str]] = {
    "us": (("time",), 1e3, ".1f"),
    "M instr.": (("instructions",), 1e6, ".2f"),
    "tensor %": (("tensor_active",), 1, ".1f"),
    "occupancy %": (("theoretical_occupancy",), 1, ".1f"),
    "achieved %": (("achieved_occupancy",), 1, ".1f"),
    "DRAM MB": (("dram_read_bytes", "dram_write_bytes"), 1e6, ".1f"),
    "TMA MB": (("tma_load_bytes", "tma_store_bytes"), 1e6, ".1f"),
    "local B": (("local_load_bytes", "local_store_bytes"), 1, ".0f"),
    "fp64": (("fp64_fma", "fp64_add", "fp64_mul"), 1, ".0f"),
}


def add_parsers(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "profile", help="hardware counters of builds, through Nsight Compute"
    )
    add_arguments(parser)
    parser.add_argument(
        "--suite", nargs="+", default=["gate"], help="of ci/matrix.toml (default gate)"
    )
    parser.add_argument(
        "--problems", type=int, metavar="N", help="as many of these, spread evenly (default: all)"
    )
    parser.add_argument(
        "--problem",
        nargs="+",
        type=Problem.parse,
        default=[],
        metavar="ID",
        help="these instead of suites",
    )
    parser.add_argument(
        "--arms",
        nargs="+",
        default=[],
        metavar="ARM",
        help="only these builds, as for run, or any other as NAME=DIR (default: all that hold this GPU's own code)",
    )
    parser.add_argument("--ncu", metavar="PROGRAM", help="Nsight Compute (default: ncu)")
    parser.set_defaults(run=run_profile)


def run_profile(arguments: argparse.Namespace) -> int:
    """Writes profile.json, prints its table, and what must be 0 and is not; 1 when there is such a thing."""
    given = names(arguments.arms)
    if given and not arguments.build and all("=" in arm for arm in given):
        # No cell need be built here then; whether this GPU runs such builds, the first one tells.
        arguments.build = [Path(given[0].partition("=")[2])]
    session = open_session(arguments)
    header(session)
    if not session.builds:
        return 0
    ncu = Ncu.find(arguments.ncu)
    arms = arms_of(given, session)
    suites = [] if arguments.problem else names(arguments.suite)
    problems = [("", problem) for problem in arguments.problem] or spread(
        [(suite, p) for suite in suites for p in suite_problems(suite, session.matrix)],
        arguments.problems,
    )
    metrics = profile.metrics_document(ncu.metric_names())
    say(f"Nsight Compute {ncu.version}: {len(problems)} problems, {', '.join(arms)}")
    for metric in metrics.values():
        if metric["name"] is None:
            say(f"missing: {metric['meaning']}: {profile.NO_METRIC}")
    rows = _profile(session, ncu, arms, problems, metrics)
    manifests = {name: Manifest.read(folder) for name, folder in arms.items()}
    found = profile.findings(rows, manifests)
    document = results.document(
        "profile",
        list(arms),
        state="failed" if found else "measured",
        reason="; ".join(found),
        watch=session.watch,
        machine=machine.describe(),
        suites=suites,
        ncu={
            "version": ncu.version,
            "clock_control": CLOCK_CONTROL,
            "cache_control": CACHE_CONTROL,
        },
        arms=[
            results.arm_identity(name, manifests[name].cell, folder)
            for name, folder in arms.items()
        ],
        metrics=metrics,
        results=rows,
        findings=found,
    )
    session.write([document])
    _print(rows)
    for finding in found:
        say(f"must be 0: {finding}")
    return int(bool(found))


def arms_of(given: Sequence[str], session: Session) -> dict[str, Path]:
    """Build folders by arm's name. Raises BenchError where one is not there or does not run here."""
    if not given:
        own = {
            name: folder
            for name, folder in session.builds.items()
            if (manifest := Manifest.read(folder)).form == "sass" and manifest.twin_of is None
        }
        return own or session.builds
    chosen = only(session, [arm for arm in given if "=" not in arm])
    for name, (_, why) in chosen.refused.items():
        raise BenchError(f"arm {name}: {why}")
    arms = dict(chosen.builds)
    for arm in given:
        name, named, path = arm.partition("=")
        if not named:
            continue
        if name in arms:
            raise BenchError(f"two arms are called {name}: give them other names by NAME=DIR")
        arms[name] = build_folder(Path(path))
        if why := why_not_on(Manifest.read(arms[name]), machine.capability()):
            raise BenchError(f"arm {name}: {why}")
    return arms


def spread(problems: Sequence[tuple[str, Problem]], count: int | None) -> list[tuple[str, Problem]]:
    """`count` of the problems, the first and the last among them; all where there are not more."""
    if count is None or count >= len(problems):
        return list(problems)
    if count < 1:
        raise BenchError(f"--problems {count}: at least 1 is needed")
    last = max(count - 1, 1)
    return [problems[number * (len(problems) - 1) // last] for number in range(count)]


def _profile(
    session: Session,
    ncu: Ncu,
    arms: Mapping[str, Path],
    problems: Sequence[tuple[str, Problem]],
    metrics: Document,
) -> list[Document]:
    """The document's ``results``. A process for each arm, since starting one takes longer than counting."""
    from fa3_matrix.bench.builds import BuildArm  # needs torch

    rows: list[Document] = [
        {"suite": suite, "problem": p.id, "name": p.label, "kernels": {}, "not_run": {}}
        for suite, p in problems
    ]
    for name, folder in arms.items():
        arm = BuildArm.open(folder)
        served = []
        for row in rows:
            try:
                served.append((row, arm.variant(Problem.parse(row["problem"])).name))
            except BenchError as error:
                row["not_run"][name] = str(error)
        if served:
            _count(session, ncu, name, arm, served, metrics)
    return rows


def _count(
    session: Session,
    ncu: Ncu,
    name: str,
    arm: "BuildArm",
    served: Sequence[tuple[Document, str]],
    metrics: Document,
) -> None:
    """Enters the kernels of one arm in the rows it serves, given with the variants that do."""
    say(f"{name}: counting")
    log = session.results / "raw" / f"profile-{name}.csv"
    ids = [row["problem"] for row, _ in served]
    target = (sys.executable, "-m", "fa3_matrix.bench.profile_target", str(arm.folder), *ids)
    wanted = [metric["name"] for metric in metrics.values() if metric["name"]]
    launches = ncu.count(target, wanted, log)
    calls = profile.by_call(launches, [variant for _, variant in served])
    for (row, _), call in zip(served, calls, strict=True):
        row["kernels"][name] = [profile.kernel_document(launch, metrics) for launch in call]


def _print(rows: Sequence[Document]) -> None:
    """A line a kernel; "-": missing."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title="counters (time is the profiler's: cold caches, clocks as they come)")
    table.add_column("problem", overflow="fold")
    table.add_column("arm")
    table.add_column("kernel")
    for title in _COLUMNS:
        table.add_column(title, justify="right")
    table.add_column("longest wait of warps")
    for row in rows:
        for arm, kernels in row["kernels"].items():
            for kernel in kernels:
                counters = kernel["counters"]
                cells = [_cell(counters, *column) for column in _COLUMNS.values()]
                words = (row["name"], arm, kernel["role"])
                table.add_row(*map(Text, (*words, *cells, _longest_wait(counters))))
    console = Console()
    Console(width=console.width if console.is_terminal else _LOG_WIDTH).print(table)


def _cell(counters: Document, keys: tuple[str, ...], divisor: float, form: str) -> str:
    if any(key not in counters for key in keys):
        return "-"
    return format(sum(counters[key] for key in keys) / divisor, form)


def _longest_wait(counters: Document) -> str:
    """What warps waited for longest, and its share of their time."""
    waits = {m: counters[m.key] for m in METRICS if m.scale == "warp_cycles" and m.key in counters}
    if not waits or not counters.get("warp_cycles"):
        return "-"
    longest = max(waits, key=waits.__getitem__)
    share = waits[longest] / counters["warp_cycles"]
    return f"{longest.key.removeprefix('stall_')} {share:.0%}"
