"""What the bench stage writes and the report reads: ``build/results/<kind>-<cell>.json``.

Every file holds one JSON object with these keys::

    schema    1
    kind      "correctness" | "performance" | "peers"
    cell      cell or twin name, e.g. "sm90-cu133"; for "peers" the list of cells compared
    state     "passed" | "failed" | "measured" (a time has no verdict here) | "not run"
    reason    one sentence; empty when passed or measured
    seconds   wall time of the run
    machine   {"gpu", "compute_capability": [9, 0], "driver", "uuid", "sms", "torch", "python"}, or
              {"gpu": null, ...} when there was none
    started   UTC time, ISO 8601
    manifest_sha256   of the manifest.json of the build that ran (not in "peers"): another one makes a result stale

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
    results   [{"problem", "name", "suite", "variant", "median_us", "spread", "tflops", "gb_per_s", "launch_us",
                "rounds", "calls", "mode", "occupancy": {"theoretical", "launch", "ctas", "waves"}, "sm_mhz"}]

    median_us is CUDA-event time of one call, in "graph" or "launch" mode, the median over `rounds` samples of `calls`
    calls each; spread the interquartile range over the median; launch_us the host's time in one call;
    occupancy: fractions of the SM's warps (see fa3_matrix.bench.occupancy).

``raw/pytest-benchmark.json`` holds every sample in pytest-benchmark's own format.

``peers.json`` adds::

    suites, rounds, seed
    peers     [{"name", "title", "version", "not_run"}]; not_run says why it is missing, version is then empty
    floor     what `below_floor` counts by
    results   [{"suite", "problem", "name", "head_dim", "arms": {arm: {"median_us", "spread", "tflops"}},
                "not_run": {arm: why it was not timed}, "best_peer", "ratio": {build arm: best peer's time / build's},
                "mode", "calls", "sm_mhz"}]
    summary   [{"build", "suite", "head_dim", "compared", "not_compared", "geomean", "worst", "worst_name",
                "below_floor"}] of these ratios; head_dim is null for the whole suite

    best_peer is null where no peer was timed. The state is "failed" when a build refused a problem or its output was
    wrong, "not run" when no peer was timed at all.
"""

import time
from datetime import UTC, datetime
from typing import Any

SCHEMA = 1
Document = dict[str, Any]


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
