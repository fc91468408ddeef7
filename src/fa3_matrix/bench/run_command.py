"""``python -m fa3_matrix.bench run``: times of builds, and of other implementations beside them."""

import argparse
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from fa3_matrix.bench import ROUNDS, machine, results
from fa3_matrix.bench.comparison import FLOOR, refusals, summarise
from fa3_matrix.bench.peers import PEERS, Peer
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.results import Document, manifest_sha256
from fa3_matrix.bench.session import (
    Session,
    add_arguments,
    header,
    names,
    only,
    open_session,
    say,
)
from fa3_matrix.bench.suites import suite_problems
from fa3_matrix.errors import BenchError

if TYPE_CHECKING:
    from fa3_matrix.bench.builds import BuildArm
    from fa3_matrix.bench.ceilings import Ceilings
    from fa3_matrix.bench.performance import Done, Performance

# Not in ci/matrix.toml: it follows from the builds.
_VARIANTS = "variants"
SUITES = ("headline", "decode", "varlen", "dynamic", "launch", _VARIANTS)

_DESCRIPTION = f"""\
Time builds on suites of problems, all arms interleaved in one process, each arm's output held against an fp32
reference first. Beside device times: the shares of a matrix product and a copy measured in the same run, launch
latency, memory, occupancy, and of the suite `dynamic` how evenly a captured CUDA graph replays.

Suites are those of ci/matrix.toml, and `{_VARIANTS}`, a problem or more for each variant of the builds. Names may be
separated by spaces or commas.
"""
_EPILOG = """\
examples:
  %(prog)s                                            every suite, every build that this GPU loads
  %(prog)s --suite headline --arms cu124,cu133        this GPU's cells of both toolkits, one suite
  %(prog)s --suite grid decode varlen --peers         and every other implementation that is installed
  %(prog)s --peers flash_attn_3 --builds build/cells/sm90-cu133

exit codes: 0 measured, or nothing could run here, which is said; 1 a build refused a problem or its output was wrong;
2 the command could not do its work.
"""


def add_parsers(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "run",
        help="times of builds by suite, with --peers beside other implementations",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    parser.add_argument(
        "--suite", nargs="+", default=list(SUITES), help=f"default: {' '.join(SUITES)}"
    )
    parser.add_argument(
        "--arms",
        nargs="+",
        default=[],
        help="of the builds only these: a cell or twin, or a toolkit (cu133) for this GPU's cell of it",
    )
    parser.add_argument(
        "--peers",
        nargs="*",
        help=f"time these too: {', '.join(PEERS)}; without a name all that are installed",
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"samples (default {ROUNDS})")
    parser.add_argument("--seed", type=int, default=0, help="of the order of arms (default 0)")
    parser.set_defaults(run=run_performance)


def run_performance(arguments: argparse.Namespace) -> int:
    """Times, prints and writes; 1 when a build refused a problem or its output was wrong."""
    suites = names(arguments.suite)
    peers = _peers(arguments.peers)
    session = open_session(arguments)
    if arguments.arms:
        session = only(session, names(arguments.arms))
    header(session)
    documents = session.not_run("performance", suites=suites, ceilings=None, results=[])
    if session.builds:
        documents += _run(session, suites, peers, arguments.rounds, arguments.seed)
    session.write(documents)
    return int(any(document["state"] == "failed" for document in documents))


def _peers(values: Sequence[str] | None) -> list[Peer]:
    if values is None:
        return []
    chosen = names(values) or list(PEERS)
    for name in chosen:
        if name not in PEERS:
            raise BenchError(f"no peer is named {name!r}; there are {', '.join(PEERS)}")
    return [PEERS[name] for name in chosen]


def _run(
    session: Session, suites: Sequence[str], peers: Sequence[Peer], rounds: int, seed: int
) -> list[Document]:
    # Needed once all is timed: if it is missing, that is said before minutes of measuring.
    import pytest_benchmark.plugin  # noqa: F401

    from fa3_matrix.bench.builds import BuildArm
    from fa3_matrix.bench.performance import Performance

    for peer in peers:
        say(f"{peer.name}: {f'not run: {peer.missing}' if peer.missing else peer.version}")
    arms = {name: BuildArm.open(folder) for name, folder in session.builds.items()}
    performance = Performance(
        builds=arms,
        suites={name: _problems(name, arms.values(), session) for name in suites},
        rounds=rounds,
        seed=seed,
        sms=machine.describe()["sms"],
        peers=peers,
    )
    performance.run(_progress(list(arms)))
    _print_ceilings(performance.ceilings)
    _replay(session, performance)
    documents = [_of_build(session, performance, suites, name) for name in arms]
    return documents + ([_of_peers(session, performance, suites)] if peers else [])


def _problems(suite: str, arms: Iterable["BuildArm"], session: Session) -> list[Problem]:
    from fa3_matrix.bench.performance import variant_problems

    if suite == _VARIANTS:
        return variant_problems(arms)
    return suite_problems(suite, session.matrix)


def _progress(builds: Sequence[str]) -> "Callable[[Done], None]":
    """Prints a line a problem: times of the builds, the best peer's, and how long all the others may take."""
    begin = time.monotonic()

    def report(done: "Done") -> None:
        left = (time.monotonic() - begin) / done.count * (done.total - done.count)
        medians = {name: m.samples.median * 1e6 for name, m in done.outcome.timed.items()}
        shown = [f"{name} {medians[name]:.1f} us" for name in builds if name in medians]
        peers = {name: median for name, median in medians.items() if name not in builds}
        if peers:
            best = min(peers, key=peers.__getitem__)
            shown.append(f"best peer {best} {peers[best]:.1f} us")
        say(
            f"{done.count}/{done.total}  {done.problem.label}:  {', '.join(shown) or 'nothing timed'}"
            f"  ({left:.0f} s left)"
        )

    return report


def _replay(session: Session, performance: "Performance") -> None:
    """Hands what was timed to pytest-benchmark. Raises BenchError when that fails: its file would be another run's."""
    import pytest

    from fa3_matrix.bench import plugin
    from fa3_matrix.bench.cases import PERFORMANCE

    if next(performance.entries(), None) is None:
        return

    class Stash:
        def pytest_configure(self, config: pytest.Config) -> None:
            config.stash[PERFORMANCE] = performance
            config.stash[plugin.MANIFESTS] = {
                name: manifest_sha256(arm.folder) for name, arm in performance.builds.items()
            }

    raw = session.results / "raw" / "pytest-benchmark.json"
    raw.parent.mkdir(parents=True, exist_ok=True)
    code = pytest.main(
        [
            # The project's own pytest settings are for its tests.
            *("-c", os.devnull, "--rootdir", str(session.matrix.root), "-p", "no:cacheprovider"),
            *("--pyargs", "fa3_matrix.bench.cases", "-qq", f"--benchmark-json={raw}"),
            # This process has imported the package before pytest could.
            *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
            # Rounds of pytest-benchmark's own table, a thousand lines of it, say less than those below.
            "--benchmark-quiet",
        ],
        # Registered by its module's name, which is its entry point's too: once, installed or not.
        plugins=[Stash(), plugin],
    )
    if code:
        raise BenchError(f"pytest-benchmark did not take the times: pytest ended with {code!r}")
    say(f"samples: {raw}")


def _of_build(
    session: Session, performance: "Performance", suites: Sequence[str], name: str
) -> Document:
    rows = performance.rows(name)
    failures = performance.failures(name)
    _print_build(name, rows)
    return results.document(
        "performance",
        name,
        state="failed" if failures else "measured",
        reason="; ".join(failures),
        watch=session.watch,
        machine=machine.describe(),
        manifest_sha256=manifest_sha256(session.builds[name]),
        suites=suites,
        ceilings=performance.ceilings.as_json(),
        results=rows,
    )


def _of_peers(session: Session, performance: "Performance", suites: Sequence[str]) -> Document:
    rows = performance.peer_rows()
    summary = summarise(session.builds, rows)
    refused = refusals(rows)
    _print_peers(summary, refused)
    failures = [
        f"{name} on {count} problems: {reason}"
        for (name, reason), count in refused.items()
        if name in session.builds
    ]
    state = "failed" if failures else "measured" if summary else "not run"
    why = "" if summary else "no peer ran any of the problems"
    return results.document(
        "peers",
        list(session.builds),
        state=state,
        reason="; ".join(failures) or why,
        watch=session.watch,
        machine=machine.describe(),
        suites=suites,
        ceilings=performance.ceilings.as_json(),
        peers=[
            {"name": p.name, "title": p.title, "version": p.version, "not_run": p.missing}
            for p in performance.peers
        ],
        floor=FLOOR,
        rounds=performance.rounds,
        seed=performance.seed,
        results=rows,
        summary=summary,
    )


def _print_ceilings(ceilings: "Ceilings") -> None:
    say(
        f"ceilings here: {ceilings.gemm_tflops:.0f} TFLOP/s (matrix product, {ceilings.gemm}), "
        f"{ceilings.copy_gb_per_s:.0f} GB/s (copy, {ceilings.copy})"
    )


def _print_build(name: str, rows: Sequence[Document]) -> None:
    width = max((len(row["name"]) for row in rows), default=0)
    say(
        f"{name:{width}}  median us  TFLOP/s  of GEMM    GB/s  of copy  launch us  idle us  work MB  "
        "occupancy  by launch  variant"
    )
    for row in rows:
        occupancy, memory = row["occupancy"], row["memory"]
        workspace = f"{memory['workspace_bytes'] / 1e6:.1f}" if memory else "-"
        say(
            f"{row['name']:{width}}  {row['median_us']:9.1f}  {row['tflops']:7.1f}  {row['of_gemm']:7.0%}  "
            f"{row['gb_per_s']:6.0f}  {row['of_copy']:7.0%}  {row['launch_us']:9.1f}  {row['idle_us']:7.1f}  "
            f"{workspace:>7}  {occupancy['theoretical']:9.0%}  {occupancy['launch']:9.0%}  {row['variant']}"
        )
    graphs = [row["graph"] for row in rows if row["graph"]]
    if graphs:
        _print_graphs(name, graphs)


def _print_graphs(name: str, graphs: Sequence[Document]) -> None:
    captured = [graph for graph in graphs if not graph["error"]]
    jitter = max((graph["p99_us"] / graph["p50_us"] - 1 for graph in captured), default=0)
    say(
        f"{name}: {len(captured)} of {len(graphs)} problems captured in a CUDA graph; "
        f"replays' p99 is at most {jitter:.1%} above their median"
    )
    for error in dict.fromkeys(graph["error"] for graph in graphs if graph["error"]):
        say(f"{name}: not captured: {error}")


def _print_peers(summary: Sequence[Document], refused: dict[tuple[str, str], int]) -> None:
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
