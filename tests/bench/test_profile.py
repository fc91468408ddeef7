"""The profile's document: launches matched to calls, counters that are missing or must be 0, what a call adds up to."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa3_matrix.bench.profile import (
    by_call,
    counters,
    findings,
    kernel_document,
    metrics_document,
)
from fa3_matrix.bench.profile_metrics import METRICS
from fa3_matrix.bench.profile_ncu import Launch
from fa3_matrix.build import Manifest
from fa3_matrix.errors import BenchError


def launch(kernel: str, **values: str) -> Launch:
    return Launch(kernel, "(128, 1, 1)", "(132, 1, 1)", values)


def names(calls: list[list[Launch]]) -> list[list[str]]:
    return [[launch.kernel for launch in call] for call in calls]


calls_of_kernels = st.lists(
    st.builds(
        lambda variant, appends, combines: [
            *["some_splitkv_append"] * appends,
            variant,
            *[f"{variant}_combine"] * combines,
        ],
        variant=st.sampled_from(["fa3_fwd_a", "fa3_fwd_b"]),
        appends=st.integers(0, 1),
        combines=st.integers(0, 1),
    ),
    max_size=8,
)


@given(calls=calls_of_kernels)
def test_launches_are_told_apart_by_name_and_order(calls: list[list[str]]):
    launches = [launch(kernel) for call in calls for kernel in call]
    variants = [
        kernel for call in calls for kernel in call if not kernel.endswith(("append", "combine"))
    ]
    assert names(by_call(launches, variants)) == calls


@pytest.mark.parametrize(
    ("ran", "variants"),
    [
        ([], ["fa3_fwd_a"]),
        (["fa3_fwd_a"], ["fa3_fwd_b"]),
        (["fa3_fwd_a", "fa3_fwd_b"], ["fa3_fwd_b", "fa3_fwd_a"]),
        (["fa3_fwd_a", "fa3_fwd_a"], ["fa3_fwd_a"]),
        (["fa3_fwd_a", "fa3_fwd_a_append"], ["fa3_fwd_a"]),
        (["fa3_fwd_a_combine", "fa3_fwd_a"], ["fa3_fwd_a"]),
        (["fa3_fwd_a", "fa3_fwd_b_combine"], ["fa3_fwd_a"]),
    ],
)
def test_other_kernels_than_the_problems_are_an_error(ran: list[str], variants: list[str]):
    launches = [launch(kernel) for kernel in ran]
    with pytest.raises(BenchError, match="are not those of the problems"):
        by_call(launches, variants)


def metric_table(**names: str | None) -> dict[str, Any]:
    return {key: {"meaning": key, "unit": "", "name": name} for key, name in names.items()}


def test_each_metric_has_a_value_or_a_reason():
    metrics = metric_table(
        instructions="sm__a.sum", time="gpu__b.sum", cycles=None, fp64_fma="c__d"
    )
    kernel = kernel_document(
        launch("fa3_fwd_a", **{"sm__a.sum": "0", "gpu__b.sum": "n/a"}), metrics
    )
    assert kernel["role"] == "forward"
    assert kernel["counters"] == {"instructions": 0}
    assert kernel["missing"] == {
        "time": "ncu printed 'n/a'",
        "cycles": "ncu has no such metric for this chip",
        "fp64_fma": "ncu printed no c__d",
    }


def test_the_names_that_ncu_lists_are_those_asked_for():
    metrics = metrics_document(frozenset({"sm__inst_executed"}))
    assert list(metrics) == [metric.key for metric in METRICS]
    assert [key for key, metric in metrics.items() if metric["name"]] == ["instructions"]
    assert metrics["instructions"] == {
        "meaning": "warp instructions",
        "unit": "inst",
        "name": "sm__inst_executed.sum",
    }


def kernel(name: str, role: str = "forward", **counted: float) -> dict[str, Any]:
    return {"kernel": name, "role": role, "counters": counted, "missing": {}}


def document(*kernels: dict[str, Any], arm: str = "a", sha256: str = "1") -> dict[str, Any]:
    return {
        "arms": [{"name": arm, "cell": "sm90-cu133", "manifest_sha256": sha256}],
        "results": [{"problem": "p", "name": "a problem", "kernels": {arm: list(kernels)}}],
    }


def test_counts_add_up_over_a_calls_kernels_and_shares_do_not():
    splits = document(
        kernel("x_append", "append", instructions=1, achieved_occupancy=90, dram_read_bytes=1),
        kernel("x", instructions=10, achieved_occupancy=20, dram_read_bytes=7, time=5),
        kernel("x_combine", "combine", instructions=100, achieved_occupancy=80, time=3),
    )
    # The combining kernel's bytes are missing: a sum of the others would be too small.
    assert counters(splits, "p", "1") == {"instructions": 111, "achieved_occupancy": 20}


@pytest.mark.parametrize(("problem", "sha256"), [("other", "1"), ("p", "2")])
def test_another_problem_or_build_was_not_profiled(problem: str, sha256: str):
    assert counters(document(kernel("x", instructions=10)), problem, sha256) == {}


@pytest.fixture
def manifest(write_build, tmp_path) -> Manifest:
    return Manifest.read(write_build(tmp_path / "fa3"))


def test_fp64_and_local_memory_are_findings(manifest: Manifest):
    clean = {"fp64_fma": 0.0, "local_load_bytes": 0.0, "instructions": 9.0}
    name = manifest.variants[0].name
    results = document(
        kernel(name, **clean | {"fp64_fma": 64.0}),
        kernel(f"{name}_combine", "combine", **clean | {"local_load_bytes": 4096.0}),
    )["results"]
    assert findings(results, {"a": manifest}) == [
        f"a on a problem: {name}: 64 fp64 fma of threads",
        f"a on a problem: {name}_combine: 4096 bytes of local-memory loads",
    ]
    assert findings(document(kernel(name, **clean))["results"], {"a": manifest}) == []
    # Not counted is not 0, and no finding either: it is listed as missing.
    assert findings(document(kernel(name))["results"], {"a": manifest}) == []


def test_local_memory_of_a_waived_spill_is_none(manifest: Manifest):
    variant = manifest.variants[0]
    results = document(kernel(variant.name, local_load_bytes=64.0, fp64_add=1.0))["results"]
    variants = [replace(variant, spill_waiver="known"), *manifest.variants[1:]]
    found = findings(results, {"a": replace(manifest, variants=variants)})
    assert found == [f"a on a problem: {variant.name}: 1 fp64 add of threads"]
