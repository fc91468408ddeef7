"""What the bench stage writes and the report reads: ``build/results/<kind>-<cell>.json``.

Every file holds one JSON object with these keys::

    schema    1
    kind      "correctness" | "performance" | "peers" | "profile" (adds what `fa3_matrix.bench.profile` says)
    cell      cell or twin name, e.g. "sm90-cu133"; for "peers" and "profile" a list, of cells or arms
    state     "passed" | "failed" | "measured" (a time has no verdict here) | "not run"
    reason    one sentence; empty when passed or measured
    seconds   wall time of the run
    machine   {"gpu", "compute_capability": [9, 0], "driver", "uuid", "sms", "torch", "python",
              "clocks": see fa3_matrix.bench.sensors}, or {"gpu": null, ...} when there was none
    started   UTC time, ISO 8601
    manifest_sha256   of the manifest.json of the build that ran (not where `cell` is a list): another one makes a
              result stale

A ratio is an error over what is allowed, so 1 is the limit; 1e9 stands for NaN and infinity, which JSON has not.

``correctness-<cell>.json`` adds::

    suite     "random+fixed" | "random" | "fixed" | "reduced" | "problem" | a suite's name
    seed      of the random problems; null without any
    counts    {"requested", "run", "passed", "failed", "not_run"}
    worst     {"ratio", "problem", "rms_ratio", "rms_problem", "lse_ratio", "lse_problem"}: largest ratios, and of what
    variants  {variant name: problems that used it}; every variant of the build is listed, so 0 is visible
    failures  [{"problem", "reason", "command"}], command reproduces it on one line

``performance-<cell>.json`` adds::

    suites    names of the suites that were timed
    ceilings  {"gemm_tflops", "copy_gb_per_s", "gemm", "copy"}: what a large matrix product and a large copy reached in
              the same run, and of what size they were; null when nothing was timed
    results   [{"suite", "problem", "name", "flops", "bytes", "variant", "rounds", "calls", "mode", "sm_mhz",
                "occupancy": {"theoretical", "launch", "ctas", "waves"}, and the figures of an arm}]

    flops, bytes: of the algorithm, see fa3_matrix.bench.problems; a sample is of `calls` calls in one "graph" or in as
    many "launch"es; occupancy: fractions of the SM's warps, see fa3_matrix.bench.occupancy.

The figures of an arm on a problem::

    median_us   device time of one call, the median over the rounds; spread: the interquartile range over it
    tflops, gb_per_s     flops and bytes over that; of_gemm, of_copy: their shares of the ceilings
    launch_us   the host's time in one call; idle_us: the device's time around one call. Both on an idle GPU
    memory      {"peak_bytes", "output_bytes", "workspace_bytes"} that one call allocates; null off the GPU
    graph       of the suite "dynamic" {"error", "replays", "p50_us", "p99_us", "p999_us"} of replays of one captured
                call, else null; error: why it could not be captured, or empty. Times are null where it was not

``raw/pytest-benchmark.json`` holds every sample in pytest-benchmark's own format.

``peers.json`` adds::

    suites, ceilings, rounds, seed
    peers     [{"name", "title", "version", "not_run"}]; not_run says why it is missing, version is then empty
    floor     what `below_floor` counts by
    results   [{"suite", "problem", "name", "flops", "bytes", "head_dim", "arms": {arm: its figures},
                "not_run": {arm: why it was not timed}, "best_peer", "ratio": {build arm: best peer's time / build's},
                "mode", "calls", "sm_mhz"}]
    summary   [{"build", "suite", "head_dim", "compared", "not_compared", "geomean", "worst", "worst_name",
                "below_floor"}] of these ratios; head_dim is null for the whole suite

    best_peer is null where no peer was timed. The state is "failed" when a build refused a problem or its output was
    wrong, "not run" when no peer was timed at all.
"""

import hashlib
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SCHEMA = 1
Document = dict[str, Any]


def arm_identity(name: str, cell: str, folder: Path) -> Document:
    """How documents name an arm: a build, which may be of any origin."""
    return {"name": name, "cell": cell, "manifest_sha256": manifest_sha256(folder)}


def manifest_sha256(folder: Path) -> str:
    """Identifies the build that a result is of."""
    return hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()


def first_line(error: BaseException) -> str:
    """What `error` says, without the traces that torch adds."""
    return str(error).partition("\n")[0] or type(error).__name__


class Stopwatch:
    """Wall time since creation, and when that was."""

    def __init__(self) -> None:
        self.started = datetime.now(UTC).isoformat(timespec="seconds")
        self._begin = time.monotonic()

    def seconds(self) -> float:
        return round(time.monotonic() - self._begin, 3)


def document(
    kind: str,
    cell: str | list[str],
    *,
    state: str,
    reason: str,
    watch: Stopwatch,
    machine: Document,
    **more: Any,
) -> Document:
    """The keys every results file has, then `more`."""
    return {
        "schema": SCHEMA,
        "kind": kind,
        "cell": cell,
        "state": state,
        "reason": reason,
        "seconds": watch.seconds(),
        "machine": machine,
        "started": watch.started,
        **more,
    }
