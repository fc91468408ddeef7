"""Hardware counters of builds on problems: what ``build/results/profile.json`` holds, and how it is read. No torch.

Its keys are those of every results file (`fa3_matrix.bench.results`; "failed": a counter that must be 0 is not), and::

    cell      names of the arms
    suites    names of the suites, or [] where problems were named
    ncu       {"version", "clock_control", "cache_control"}
    arms      [{"name", "cell", "manifest_sha256"}]
    metrics   {key: {"meaning", "unit", "name" (ncu's, null where it has none)}}
    results   [{"suite", "problem", "name", "kernels": {arm: [kernel]}, "not_run": {arm: why}}]
    findings  sentences

A kernel is {"kernel", "role", "grid", "block", "counters": {key: number}, "missing": {key: why}}: every key of
`metrics` is in one of the last two, and what could not be read is never 0. Kernels are in the order launched: role
"append" writes new rows to a cache, "forward" attends, "combine" merges splits of the keys.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fa3_matrix.bench.profile_metrics import METRICS, resolve
from fa3_matrix.bench.profile_ncu import Launch
from fa3_matrix.bench.results import Document
from fa3_matrix.build import Manifest
from fa3_matrix.errors import BenchError

NO_METRIC = "ncu has no such metric for this chip"


def role(kernel: str) -> str:
    """What a kernel is in a call, by its name."""
    return next((r for r in ("append", "combine") if kernel.endswith(f"_{r}")), "forward")


def metrics_document(listed: frozenset[str]) -> Document:
    """The document's ``metrics``, by the names that ncu lists."""
    return {
        metric.key: {
            "meaning": metric.meaning,
            "unit": metric.unit,
            "name": resolve(metric, listed),
        }
        for metric in METRICS
    }


def by_call(launches: Iterable[Launch], variants: Sequence[str]) -> list[list[Launch]]:
    """The launches of each call, told apart by their names: calls use `variants`, in this order.

    Raises BenchError when other kernels ran.
    """
    left = deque(launches)
    ran = ", ".join(launch.kernel for launch in left)
    calls = []
    for variant in variants:
        call = []
        while left and role(left[0].kernel) == "append":
            call.append(left.popleft())
        if left and left[0].kernel == variant:
            call.append(left.popleft())
            calls.append(call)
        while left and left[0].kernel == f"{variant}_combine":
            call.append(left.popleft())
    if left or len(calls) != len(variants):
        raise BenchError(
            f"the kernels profiled are not those of the problems: {ran or 'none'} ran, "
            f"where {', '.join(variants)} were to"
        )
    return calls


def kernel_document(launch: Launch, metrics: Mapping[str, Any]) -> Document:
    """A kernel of the document, by its ``metrics``."""
    counters, missing = {}, {}
    for key, metric in metrics.items():
        if metric["name"] is None:
            missing[key] = NO_METRIC
            continue
        value = launch.value(metric["name"])
        if isinstance(value, str):
            missing[key] = value
        else:
            counters[key] = value
    return {
        "kernel": launch.kernel,
        "role": role(launch.kernel),
        "grid": launch.grid,
        "block": launch.block,
        "counters": counters,
        "missing": missing,
    }


def findings(results: Iterable[Document], manifests: Mapping[str, Manifest]) -> list[str]:
    """What must be 0 and is not: fp64 instructions, and local memory but for variants whose spills are waived."""
    waived = {
        (arm, variant.name)
        for arm, manifest in manifests.items()
        for variant in manifest.variants
        if variant.spill_waiver
    }
    return [
        f"{arm} on {entry['name']}: {kernel['kernel']}: {kernel['counters'][metric.key]:.0f} {metric.meaning}"
        for entry in results
        for arm, kernels in entry["kernels"].items()
        for kernel in kernels
        for metric in METRICS
        if metric.group == "fp64"
        or (metric.group == "local-memory" and (arm, kernel["kernel"]) not in waived)
        if kernel["counters"].get(metric.key)
    ]


def counters(document: Document, problem: str, manifest_sha256: str) -> dict[str, float]:
    """What one build did in one call, by metric: sums over the call's kernels, shares of the forward kernel alone.

    What any of the kernels lacks is left out. Empty where the build was not profiled on the problem.
    """
    kernels = _kernels(document, problem, manifest_sha256)
    found = {}
    for metric in METRICS if kernels else ():
        counted = [k for k in kernels if metric.adds_up or k["role"] == "forward"]
        values = [kernel["counters"].get(metric.key) for kernel in counted]
        if None not in values:
            found[metric.key] = sum(values)
    return found


def _kernels(document: Document, problem: str, manifest_sha256: str) -> list[Document]:
    arms = {arm["name"] for arm in document["arms"] if arm["manifest_sha256"] == manifest_sha256}
    found = (
        kernels
        for entry in document["results"]
        if entry["problem"] == problem
        for arm, kernels in entry["kernels"].items()
        if arm in arms
    )
    return next(found, [])
