"""``python -m fa3_matrix.bench peers``: builds against other implementations, interleaved in one process."""

import argparse
import random
from collections.abc import Sequence
from dataclasses import replace

from fa3_matrix.bench import machine, results
from fa3_matrix.bench.comparison import FLOOR, refusals, row, summarise
from fa3_matrix.bench.peers import PEERS, Peer
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.results import Document
from fa3_matrix.bench.session import Session, add_arguments, header, open_session, say
from fa3_matrix.bench.suites import suite_problems

ROUNDS = 15


def add_parsers(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("peers", help="times of builds beside other implementations'")
    add_arguments(parser)
    parser.add_argument(
        "--suite",
        nargs="+",
        default=["headline"],
        help="of ci/matrix.toml (default headline)",
    )
    parser.add_argument(
        "--peers",
        nargs="+",
        choices=list(PEERS),
        default=list(PEERS),
        help="what to compare with (default: all that are installed)",
    )
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help=f"samples an arm (default {ROUNDS})"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the order of arms (default 0)")
    parser.set_defaults(run=run_peers)


def run_peers(arguments: argparse.Namespace) -> int:
    """Prints the table, writes peers.json; 1 when a build refused a problem or its output was wrong."""
    session = open_session(arguments)
    header(session)
    if not session.builds:
        return 0
    peers = [PEERS[name] for name in dict.fromkeys(arguments.peers)]
    for peer in peers:
        say(f"{peer.name}: {f'not run: {peer.missing}' if peer.missing else peer.version}")
    problems = [
        (suite, problem)
        for suite in dict.fromkeys(arguments.suite)
        for problem in suite_problems(suite, session.matrix)
    ]
    rows = _measure(session, peers, problems, arguments.rounds, arguments.seed)
    summary = summarise(session.builds, rows)
    refused = refusals(rows)
    _print_end(summary, refused)
    state, reason = _state(session, summary, refused)
    document = results.document(
        "peers",
        list(session.builds),
        state=state,
        reason=reason,
        watch=session.watch,
        machine=machine.describe(),
        suites=list(dict.fromkeys(arguments.suite)),
        peers=[
            {"name": p.name, "title": p.title, "version": p.version, "not_run": p.missing}
            for p in peers
        ],
        floor=FLOOR,
        rounds=arguments.rounds,
        seed=arguments.seed,
        results=rows,
        summary=summary,
    )
    session.write([document])
    return int(state == "failed")


def _measure(
    session: Session,
    peers: Sequence[Peer],
    problems: Sequence[tuple[str, Problem]],
    rounds: int,
    seed: int,
) -> list[Document]:
    from fa3_matrix.bench.builds import BuildArm  # needs torch
    from fa3_matrix.bench.measure import Contender, measure

    builds = [Contender.of_build(BuildArm.open(folder)) for folder in session.builds.values()]
    order = random.Random(seed)
    width = max(len(problem.label) for _, problem in problems)
    say(f"{'best peer time / build time':{width}}  {'  '.join(session.builds)}  best peer")
    rows = []
    for suite, problem in problems:
        why_not = {peer.name: peer.why_not(problem) for peer in peers}
        asked = [Contender.of_peer(peer) for peer in peers if not why_not[peer.name]]
        outcome = measure(problem, [*builds, *asked], rounds=rounds, order=order)
        unasked = {name: reason for name, reason in why_not.items() if reason}
        outcome = replace(outcome, not_timed={**unasked, **outcome.not_timed})
        rows.append(row(suite, problem, list(session.builds), outcome))
        say(f"{problem.label:{width}}  {_line(rows[-1], list(session.builds))}")
    return rows


def _line(entry: Document, builds: Sequence[str]) -> str:
    """Each build's speed relative to the best peer, under its name; then which peer that is, and its time."""
    cells = []
    for build in builds:
        ratio = entry["ratio"].get(build)
        cells.append(f"{'–' if ratio is None else f'{ratio:.3f}':>{len(build)}}")
    best = entry["best_peer"]
    cells.append(f"{best} {entry['arms'][best]['median_us']:.1f} us" if best else "none ran")
    return "  ".join(cells)


def _print_end(summary: Sequence[Document], refused: dict[tuple[str, str], int]) -> None:
    for (name, reason), count in refused.items():
        say(f"{name}: not run on {count} problems: {reason}")
    for figures in summary:
        of = figures["suite"]
        of += f" head_dim {figures['head_dim']}" if figures["head_dim"] else ""
        say(
            f"{figures['build']}, {of}: geometric mean {figures['geomean']:.3f}x of {figures['compared']}, "
            f"worst {figures['worst']:.3f}x ({figures['worst_name']}), "
            f"{figures['below_floor']} below {FLOOR}x"
        )


def _state(
    session: Session, summary: Sequence[Document], refused: dict[tuple[str, str], int]
) -> tuple[str, str]:
    failures = [
        f"{name} on {count} problems: {reason}"
        for (name, reason), count in refused.items()
        if name in session.builds
    ]
    if failures:
        return "failed", "; ".join(failures)
    if not summary:
        return "not run", "no peer ran any of the problems"
    return "measured", ""
