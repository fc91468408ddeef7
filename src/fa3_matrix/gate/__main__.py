"""``python -m fa3_matrix.gate``: two builds side by side: timed, judged, or compared without a GPU."""

import argparse
import json
import lzma
import secrets
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fa3_matrix import _json
from fa3_matrix._extras import needs
from fa3_matrix._progress import progress
from fa3_matrix.bench import machine
from fa3_matrix.build import build_cell
from fa3_matrix.errors import BenchError, Fa3Error
from fa3_matrix.gate import static
from fa3_matrix.gate.arms import NamedBuild, resolve
from fa3_matrix.gate.outcome import Outcome
from fa3_matrix.matrix import ComputeCapability, Matrix, load

NOT_DONE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: pass; 9: regression; 10: inconclusive; 11: incomplete; 12: void; 2: could not start."""
    parser = argparse.ArgumentParser(prog="python -m fa3_matrix.gate", description=main.__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands)
    _add_compare(commands)
    _add_static(commands)
    _add_prove(commands)
    options = parser.parse_args(arguments)
    try:
        with needs("build,bench,gate", NOT_DONE):
            return int(options.run(options, load()))
    except Fa3Error as error:
        print(f"error: {error}", file=sys.stderr)
        return NOT_DONE


def _add_run(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("run", help="time head against base and judge: pass or fail")
    _add_arms(parser)
    _add_timing(parser)
    parser.set_defaults(run=_run)


def _add_compare(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("compare", help="time two builds side by side, without a verdict")
    parser.add_argument(
        "base", help="a cell, a build folder, a wheel, or a git revision (with --cell)"
    )
    parser.add_argument("head", help="likewise")
    parser.add_argument("--cell", help="which cell of a git revision")
    parser.add_argument("--trials", type=int, default=3, help="fresh processes (default 3)")
    _add_timing(parser)
    parser.set_defaults(run=_compare)


def _add_static(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("static", help="judge head by what its build says; needs no GPU")
    _add_arms(parser)
    parser.set_defaults(run=_static)


def _add_prove(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("prove", help="error rates of the gate on calibrating trials")
    parser.add_argument(
        "trials", type=Path, nargs="+", help="what `calibrate` wrote; a run draws from one of them"
    )
    parser.add_argument("--runs", type=int, default=2000, help="of each truth (default 2000)")
    parser.add_argument("--slowed", type=int, default=5, help="cells of a run (default 5)")
    parser.add_argument("--seed", type=int, default=0)
    parser.set_defaults(run=_prove)
    parser = commands.add_parser("calibrate", help="trials of one base against known heads")
    parser.add_argument("--base", required=True, help="as for compare")
    parser.add_argument(
        "--head",
        nargs="+",
        required=True,
        metavar="NAME=BUILD",
        help="same=BUILD is a copy of the base",
    )
    parser.add_argument("--trials", type=int, default=60, help="fresh processes (default 60)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.json.xz")
    _add_timing(parser)
    parser.set_defaults(run=_calibrate)


def _add_arms(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--base",
        default="origin/main",
        help="a build, as for compare; of a git revision its merge base with HEAD is built (default origin/main)",
    )
    parser.add_argument(
        "--head", help="a build, as for compare (default: this checkout's, built now)"
    )
    parser.add_argument("--cell", help="default: this GPU's, by the newest toolkit")


def _add_timing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--suite", nargs="+", default=["gate"], help="of ci/matrix.toml (default gate)"
    )
    parser.add_argument("--mode", choices=("cold", "hot"), default="cold", help="of the L2 cache")
    parser.add_argument(
        "--seed", type=int, help="of all that is drawn (default: a new one, printed)"
    )
    parser.add_argument("--gpu", help="refuse any other GPU than this one of ci/matrix.toml")


def _run(options: argparse.Namespace, matrix: Matrix) -> int:
    reason = _why_no_gpu(options, matrix)
    if reason:
        print(f"incomplete: {reason}", file=sys.stderr)
        return Outcome.INCOMPLETE.exit_code
    from fa3_matrix.gate import run  # needs torch and scipy

    cell = options.cell or _cell_of_this_gpu(matrix)
    base, head = _base(options, cell, matrix), _head(options, cell, matrix)
    seed = _seed(options)
    results = matrix.root / "build" / "results"
    profile = results / "profile.json"
    counted = _json.read(profile) if profile.is_file() else None
    try:
        with progress("gate", unit="trials") as shown:
            done = run.run(
                base,
                head,
                _problems(options, matrix),
                matrix.gate,
                seed,
                mode=options.mode,
                profile=counted,
                report=_reporter(shown),
            )
    except Fa3Error as error:  # a trial failed, or wrote what cannot be read
        print(f"incomplete: {error}", file=sys.stderr)
        return Outcome.INCOMPLETE.exit_code
    _json.write_atomic(results / "trials.json", {"trials": done.documents})
    _json.write_atomic(results / "gate.json", done.as_json())
    result = done.result
    print(f"{result.outcome.value}: {head.name} against {base.name}, seed {seed}")
    for sentence in result.reasons:
        print(f"  {sentence}")
    for key, found in done.hints.items():
        for hint in found:
            print(f"  {key}: {hint.text}")
    gpu = machine.gpu_here(matrix)
    if done.not_profiled and gpu:
        problems = dict.fromkeys(key.problem for key in done.not_profiled)
        arms = f"base={base.folder}", f"head={head.folder}"
        given = shlex.join(["--problem", *problems, "--arms", *arms])
        print(
            f"  hints from hardware counters in the next run: nox -s profile-{gpu.name} -- {given}"
        )
    _print_cells([*result.cells, *result.controls])
    return result.exit_code


def _compare(options: argparse.Namespace, matrix: Matrix) -> int:
    reason = _why_no_gpu(options, matrix)
    if reason:
        raise BenchError(f"times need a GPU: {reason}")
    from fa3_matrix.gate import run
    from fa3_matrix.gate.estimates import compare

    base, head = (resolve(name, options.cell, matrix) for name in (options.base, options.head))
    with progress("compare", unit="trials") as shown:
        trials, documents, no_pair = run.time(
            base,
            head,
            _problems(options, matrix),
            matrix.gate,
            _seed(options),
            options.trials,
            mode=options.mode,
            report=_reporter(shown),
        )
    comparison = compare(trials)
    results = matrix.root / "build" / "results"
    _json.write_atomic(results / "trials.json", {"trials": documents})
    _json.write_atomic(results / "comparison.json", comparison.as_json())
    _print_cells(comparison.cells)
    for key, why in no_pair.items():
        print(f"no pair: {key}: {why}")
    return 0


def _static(options: argparse.Namespace, matrix: Matrix) -> int:
    names = [options.cell] if options.cell else [cell.name for cell in matrix.cells]
    pairs = [
        static.Pair(
            name,
            _base(options, name, matrix).manifest,
            _head(options, name, matrix).manifest,
        )
        for name in names
    ]
    today = datetime.now(UTC).date()
    result = static.check(pairs, matrix.static, matrix.gate_waivers, today=today)
    _json.write_atomic(matrix.root / "build" / "results" / "static-gate.json", result.as_json())
    print(f"{result.verdict}: {', '.join(f'{cell.cell} {cell.verdict}' for cell in result.cells)}")
    for finding in result.findings:
        waived = f" (waived: {finding.waiver.reason})" if finding.waiver else ""
        print(f"  {finding.rule}: {finding.message}{waived}")
    return result.exit_code


def _prove(options: argparse.Namespace, matrix: Matrix) -> int:
    from fa3_matrix.gate.proof import SAME, Calibration, prove

    calibrations = [
        Calibration.of(json.loads(lzma.decompress(path.read_bytes()))) for path in options.trials
    ]
    print(
        "truth | runs with a false fail | runs void | runs undecided | slowed cells failed | passed"
    )
    for head in calibrations[0].trials:
        slowed = 0 if head == SAME else options.slowed
        proof = prove(calibrations, head, slowed, matrix.gate, options.runs, options.seed)
        counts = (proof.false_fails, proof.voids, proof.undecided, proof.found, proof.passed)
        print(f"{slowed} cells {head} | " + " | ".join(map(str, counts)), flush=True)
    return 0


def _calibrate(options: argparse.Namespace, matrix: Matrix) -> int:
    reason = _why_no_gpu(options, matrix)
    if reason:
        raise BenchError(f"trials need a GPU: {reason}")
    import random

    from fa3_matrix.bench.trial_plan import Plan, PlannedCell
    from fa3_matrix.bench.trials import run_trials

    heads = dict(text.split("=", 1) for text in options.head)
    plan = Plan(
        base=resolve(options.base, None, matrix).folder,
        base_name="base",
        heads={name: resolve(build, None, matrix).folder for name, build in heads.items()},
        cells=[PlannedCell(suite, p.id) for suite, p in _problems(options, matrix)],
        stage="calibrate",
        pairs=matrix.gate.pairs,
        mode=options.mode,
    )
    seeds = random.Random(_seed(options))
    with progress("calibrate", unit="trials") as shown:
        trials = run_trials(
            plan, options.trials, seeds, done=lambda n: shown.update(n, options.trials)
        )
    options.out.write_bytes(lzma.compress(json.dumps(trials).encode()))
    return 0


def _why_no_gpu(options: argparse.Namespace, matrix: Matrix) -> str:
    return machine.why_not(options.gpu, matrix) if options.gpu else machine.why_no_gpu()


def _cell_of_this_gpu(matrix: Matrix) -> str:
    here = machine.capability()
    fitting = [
        cell for cell in matrix.cells if _runs_natively(cell.target.capability_range(), here)
    ]
    if not fitting:
        raise BenchError(f"no cell is built for compute capability {here}: name one by --cell")
    return max(fitting, key=lambda cell: tuple(map(int, cell.toolkit.version.split(".")))).name


def _runs_natively(
    capabilities: tuple[ComputeCapability, ComputeCapability], here: ComputeCapability
) -> bool:
    low, high = capabilities
    return low <= here <= high and low.major == here.major


def _base(options: argparse.Namespace, cell: str, matrix: Matrix) -> NamedBuild:
    merge_base = subprocess.run(
        ["git", "-C", str(matrix.root), "merge-base", options.base, "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    # Not a revision: a folder, a wheel or a cell.
    name = options.base if merge_base.returncode else merge_base.stdout.strip()
    return resolve(name, cell, matrix)


def _head(options: argparse.Namespace, cell: str, matrix: Matrix) -> NamedBuild:
    if options.head is not None:
        return resolve(options.head, cell, matrix)
    return NamedBuild(cell, build_cell(cell).folder)


def _problems(options: argparse.Namespace, matrix: Matrix) -> list[tuple[str, Any]]:
    from fa3_matrix.bench.suites import suite_problems

    return [(suite, p) for suite in options.suite for p in suite_problems(suite, matrix)]


def _seed(options: argparse.Namespace) -> int:
    return secrets.randbelow(2**31) if options.seed is None else int(options.seed)


def _reporter(shown: Any) -> Any:
    return lambda _stage, done, total: shown.update(done, total)


def _print_cells(cells: Iterable[Any]) -> None:
    """A line a cell, slowest head first: ratio, interval, times, verdict."""
    entries = sorted((asdict(cell) for cell in cells), key=lambda c: -(c["ratio"] or 0))
    width = max((len(c["label"]) for c in entries), default=0)
    for c in entries:
        ratio = "-" if c["ratio"] is None else f"{c['ratio']:.4f}"
        interval = "" if c["interval"] is None else "{:.4f} to {:.4f}".format(*c["interval"])
        times = "" if c["base_us"] is None else f"{c['base_us']:9.1f} {c['head_us']:9.1f} us"
        kind = c["control"] or c.get("verdict", "")
        print(f"{c['label']:{width}}  {ratio:>6}  {interval:16}  {times}  {kind}")


if __name__ == "__main__":
    sys.exit(main())
