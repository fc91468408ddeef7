"""``python -m fa3_matrix.bench peers``: builds against PyTorch's FlashAttention-2, interleaved in one process."""

import argparse
import math
import random
from typing import TYPE_CHECKING, Any

from fa3_matrix.bench import machine, results
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.session import Session, add_arguments, header, open_session, say
from fa3_matrix.bench.suites import suite_problems

if TYPE_CHECKING:
    from fa3_matrix.bench.measure import Measurement

ROUNDS = 15


def add_parsers(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("peers", help="times of builds beside PyTorch's flash attention")
    add_arguments(parser)
    parser.add_argument("--suite", default="headline", help="of ci/matrix.toml (default headline)")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help=f"samples an arm (default {ROUNDS})"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the order of arms (default 0)")
    parser.set_defaults(run=run_peers)


def run_peers(arguments: argparse.Namespace) -> int:
    """Prints the table, writes peers.json; 0 unless an output was wrong."""
    session = open_session(arguments)
    header(session)
    if not session.builds:
        return 0
    from fa3_matrix.bench.measure import PEER, peer_takes  # needs torch

    problems = [p for p in suite_problems(arguments.suite, session.matrix) if peer_takes(p)]
    if not problems:
        say(f"{PEER} computes no problem of the suite {arguments.suite!r}")
        return 0
    rows = _measure(session, problems, arguments.rounds, arguments.seed)
    summary = summarise(list(session.builds), rows)
    _print_summary(summary)
    document = results.document(
        "peers",
        list(session.builds),
        state="measured",
        reason="",
        watch=session.watch,
        machine=machine.describe(),
        suite=arguments.suite,
        arms=[*session.builds, PEER],
        peer=PEER,
        rounds=arguments.rounds,
        seed=arguments.seed,
        results=rows,
        summary=summary,
    )
    session.write([document])
    return 0


def _measure(
    session: Session, problems: list[Problem], rounds: int, seed: int
) -> list[dict[str, Any]]:
    from fa3_matrix.bench.builds import BuildArm
    from fa3_matrix.bench.measure import Contender, measure

    contenders = [Contender.of_build(BuildArm.open(folder)) for folder in session.builds.values()]
    contenders.append(Contender.peer())
    order = random.Random(seed)
    width = max(len(problem.label) for problem in problems)
    columns = [max(len(contender.name), 12) for contender in contenders]
    heads = [f"{c.name:>{w}}" for c, w in zip(contenders, columns, strict=True)]
    say(f"{'TFLOP/s (peer time / build time)':{width}}  {'  '.join(heads)}")
    rows = []
    for problem in problems:
        measured = measure(problem, contenders, rounds=rounds, order=order)
        rows.append(_row(problem, measured))
        cells = [
            f"{_cell(rows[-1], c.name):>{w}}" for c, w in zip(contenders, columns, strict=True)
        ]
        say(f"{problem.label:{width}}  {'  '.join(cells)}")
    return rows


def _row(problem: Problem, measured: "dict[str, Measurement]") -> dict[str, Any]:
    *builds, peer = measured
    return {
        "problem": problem.id,
        "name": problem.label,
        "arms": {
            name: {
                "median_us": m.samples.median * 1e6,
                "spread": m.samples.spread,
                "tflops": problem.flops() / m.samples.median * 1e-12,
            }
            for name, m in measured.items()
        },
        "ratio": {
            name: measured[peer].samples.median / measured[name].samples.median for name in builds
        },
        "mode": measured[peer].samples.mode,
        "calls": measured[peer].samples.calls,
        "sm_mhz": measured[peer].sm_mhz,
    }


def _cell(row: dict[str, Any], name: str) -> str:
    tflops = f"{row['arms'][name]['tflops']:.1f}"
    return f"{tflops} ({row['ratio'][name]:.2f})" if name in row["ratio"] else tflops


def summarise(builds: list[str], rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    summary = {}
    for build in builds:
        ratios = {row["name"]: row["ratio"][build] for row in rows}
        worst = min(ratios, key=lambda name: ratios[name])
        geomean = math.exp(sum(math.log(ratio) for ratio in ratios.values()) / len(ratios))
        summary[build] = {"geomean": geomean, "worst": ratios[worst], "worst_name": worst}
    return summary


def _print_summary(summary: dict[str, dict[str, Any]]) -> None:
    for build, figures in summary.items():
        say(
            f"{build}: geometric mean {figures['geomean']:.3f}x, worst {figures['worst']:.3f}x "
            f"({figures['worst_name']})"
        )
