"""``python -m fa3_matrix.bench run``: times of every variant and cell, through pytest-benchmark."""

import argparse
import os

from fa3_matrix.bench import machine, results
from fa3_matrix.bench.results import Document
from fa3_matrix.bench.session import (
    Session,
    add_arguments,
    header,
    manifest_sha256,
    open_session,
    say,
)
from fa3_matrix.bench.suites import suite_problems

# Not in ci/matrix.toml: it follows from the builds.
VARIANTS = "variants"
SUITES = ("headline", "decode", "varlen", VARIANTS)
ROUNDS = 15


def add_parsers(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("run", help="times of builds by suite, through pytest-benchmark")
    add_arguments(parser)
    parser.add_argument(
        "--suite",
        nargs="+",
        default=list(SUITES),
        help=f"of ci/matrix.toml (default {' '.join(SUITES)}); variants: a problem or more for each variant",
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"samples (default {ROUNDS})")
    parser.add_argument("--seed", type=int, default=0, help="of the order of builds (default 0)")
    parser.set_defaults(run=run_performance)


def run_performance(arguments: argparse.Namespace) -> int:
    """Times, prints and writes; 1 when an output was wrong."""
    session = open_session(arguments)
    header(session)
    documents = session.not_run("performance", suites=arguments.suite, results=[])
    if session.builds:
        documents += _run(session, arguments)
    session.write(documents)
    return int(any(document["state"] == "failed" for document in documents))


def _run(session: Session, arguments: argparse.Namespace) -> list[Document]:
    import pytest

    from fa3_matrix.bench.builds import BuildArm
    from fa3_matrix.bench.performance import Performance, variant_problems
    from fa3_matrix.bench.plugin import PerformancePlugin

    here = machine.describe()
    arms = {name: BuildArm.open(folder) for name, folder in session.builds.items()}
    performance = Performance(
        builds=arms,
        suites={
            name: variant_problems(arms.values())
            if name == VARIANTS
            else suite_problems(name, session.matrix)
            for name in arguments.suite
        },
        rounds=arguments.rounds,
        seed=arguments.seed,
        sms=here["sms"],
    )
    raw = session.results / "raw" / "pytest-benchmark.json"
    raw.parent.mkdir(parents=True, exist_ok=True)
    code = pytest.main(
        [
            # The project's own pytest settings are for its tests.
            *("-c", os.devnull, "--rootdir", str(session.matrix.root), "-p", "no:cacheprovider"),
            *("--pyargs", "fa3_matrix.bench.cases", "-q", "--tb=line", "--no-header"),
            "--benchmark-timer=fa3_matrix.bench.vclock.now",
            f"--benchmark-json={raw}",
            # Rounds of pytest-benchmark's own table, a thousand lines of it, say less than the one below.
            "--benchmark-quiet",
        ],
        plugins=[PerformancePlugin(performance)],
    )
    say(f"samples: {raw}")
    documents = []
    unexplained = bool(code) and not any(map(performance.failures, session.builds))
    for name, folder in session.builds.items():
        rows = list(performance.rows(name))
        _print(name, rows)
        failures = performance.failures(name)
        documents.append(
            results.document(
                "performance",
                name,
                state="failed" if failures or unexplained else "measured",
                reason="; ".join(failures) or ("pytest failed" if unexplained else ""),
                watch=session.watch,
                machine=here,
                manifest_sha256=manifest_sha256(folder),
                suites=arguments.suite,
                results=rows,
            )
        )
    return documents


def _print(name: str, rows: list[Document]) -> None:
    width = max((len(row["name"]) for row in rows), default=0)
    say(f"{name:{width}}  median us  TFLOP/s    GB/s  launch us  occupancy  by launch  variant")
    for row in rows:
        occupancy = row["occupancy"]
        say(
            f"{row['name']:{width}}  {row['median_us']:9.1f}  {row['tflops']:7.1f}  {row['gb_per_s']:6.0f}  "
            f"{row['launch_us']:9.1f}  {occupancy['theoretical']:9.0%}  {occupancy['launch']:9.0%}  {row['variant']}"
        )
