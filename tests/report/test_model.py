"""The report's data: every cell is there, and nothing that was not run looks like a pass."""

import pytest

from fa3_matrix import _json, report
from fa3_matrix.errors import Fa3Error

from .conftest import BuildFolder, compared, variant

NO_DRIVER = "no NVIDIA driver"


def test_nothing_built_is_every_cell_not_built(build: BuildFolder):
    data = build.assembled()
    assert set(data["cells"]) == {cell.name for cell in build.matrix.cells}
    assert set(data["twins"]) == {twin.name for twin in build.matrix.twins}
    for entry in data["cells"].values():
        assert entry["state"] == "not built"
        assert "nox -s build-" in entry["reason"]
        assert entry["seconds"] is None
        assert entry["variants"] == []
    assert data["headline"].startswith("0 of 6 cells built")
    assert data["figures"]["build_seconds"] is None


def test_built_without_a_gpu_says_why_it_was_not_tested(build: BuildFolder):
    build.manifest("sm90-cu133")
    build.result("correctness", "sm90-cu133", "not run", reason=NO_DRIVER)
    entry = build.assembled()["cells"]["sm90-cu133"]
    assert entry["state"] == "built"
    assert entry["reason"] == f"correctness not run: {NO_DRIVER}"
    assert entry["seconds"] == 31.5
    assert [stage["state"] for stage in entry["stages"].values()] == [
        "passed",
        "passed",
        "not run",
        "not run",
        "not run",
    ]


def test_tested(build: BuildFolder):
    build.manifest("sm90-cu133")
    build.correctness("sm90-cu133")
    data = build.assembled()
    assert data["cells"]["sm90-cu133"]["state"] == "tested"
    assert "1 of 6 tested on a GPU" in data["headline"]
    assert data["correctness"][0]["worst"]["ratio"] == 0.61


def test_a_result_of_another_build_is_stale_not_a_pass(build: BuildFolder):
    build.manifest("sm90-cu133")
    build.correctness("sm90-cu133", manifest_sha256="f" * 64)
    entry = build.assembled()["cells"]["sm90-cu133"]
    assert entry["state"] == "built"
    assert entry["stages"]["correctness"]["state"] == "stale"


def test_a_failed_build_is_failed_even_beside_an_older_manifest(build: BuildFolder):
    build.manifest("sm90-cu133")
    reason = "fa3_fwd_x spills 24 bytes"
    build.result("build", "sm90-cu133", "failed", reason=reason, output="all\nof it")
    data = build.assembled()
    entry = data["cells"]["sm90-cu133"]
    assert entry["state"] == "failed"
    assert entry["reason"] == reason
    assert {entry["stages"][stage]["state"] for stage in ("audit", "compare")} == {"not run"}
    assert data["failures"] == [
        {"cell": "sm90-cu133", "stage": "build", "text": reason, "output": "all\nof it"}
    ]


def test_failed_correctness_fails_the_cell(build: BuildFolder):
    build.manifest("sm90-cu133")
    build.correctness("sm90-cu133", "failed", reason="3 of 40 problems failed")
    entry = build.assembled()["cells"]["sm90-cu133"]
    assert (entry["state"], entry["reason"]) == ("failed", "3 of 40 problems failed")


def test_advisories_and_spills_are_listed_with_their_cell(build: BuildFolder):
    spilled = variant("fa3_fwd_sm80_bf16_d256_m128n64", spill_store_bytes=8, spill_load_bytes=12)
    warned = variant("fa3_fwd_sm80_bf16_d64_m128n64", advisories=["C7510: wgmma serialised"])
    build.manifest("sm80-cu124", spilled, warned)
    texts = [entry["text"] for entry in build.assembled()["advisories"]]
    assert texts == ["spills 8 bytes out, 12 bytes in", "C7510: wgmma serialised"]


def test_one_cause_of_not_running_is_one_line(build: BuildFolder):
    for cell in build.matrix.cells:
        build.manifest(cell.name)
        build.result("correctness", cell.name, "not run", reason=NO_DRIVER)
    lines = [e for e in build.assembled()["not_run"] if e["reason"] == NO_DRIVER]
    assert len(lines) == 1
    assert lines[0]["cells"] == [cell.name for cell in build.matrix.cells]


def test_candidates_are_said_to_serve_nothing(build: BuildFolder):
    why = "not yet proven on a GPU"
    names = "fa3_fwd_sm90_bf16_d64_m192n128", "fa3_fwd_sm90_fp16_d64_m192n128"
    build.manifest("sm90-cu133", *(variant(name, candidate=why) for name in names))
    build.manifest("sm80-cu133")
    lines = [e for e in build.assembled()["not_run"] if e["stage"] == "use"]
    reason = f"2 candidate variants serve no problem: {why}"
    assert lines == [{"stage": "use", "reason": reason, "cells": ["sm90-cu133"]}]


def test_figures_are_the_sum_of_seconds_and_the_largest_compiler(build: BuildFolder):
    build.manifest("sm80-cu124", build_seconds=40.0, peak_compiler_bytes=300_000_000)
    build.manifest("sm90-cu133", build_seconds=35.5, peak_compiler_bytes=900_000_000)
    build.timing("sm80-cu124", 10.0)
    figures = build.assembled()["figures"]
    assert figures["build_seconds"] == 45.5  # a build from nothing is preferred to compilers' time
    assert figures["peak_compiler_bytes"] == 900_000_000
    assert figures["cells_measured"] == 2


def test_comparison_in_a_row(build: BuildFolder):
    build.manifest("sm90-cu124")
    build.manifest("sm90-cu133")
    rows = [
        compared("fa3_fwd_sm90_bf16_d64_m128n64"),
        compared("fa3_fwd_sm90_bf16_d128_m128n64", registers=200, instructions=4400),
        compared("fa3_fwd_sm90_bf16_d256_m128n64", warps_per_sm=4, spill_bytes=8),
    ]
    build.comparison("sm90", "sm90-cu124", "sm90-cu133", *rows)
    data = build.assembled()
    assert data["cells"]["sm90-cu133"]["stages"]["compare"]["state"] == "passed"
    assert data["cells"]["sm80-cu133"]["stages"]["compare"]["state"] == "not run"
    assert data["comparisons"][0]["summary"] == {
        "variants": 3,
        "same_sass": 1,
        "instructions": [12_000, 12_400],
        "spill_bytes": [0, 8],
        "more_registers": 0,
        "fewer_registers": 1,
        "higher_occupancy": 0,
        "lower_occupancy": 1,
        "bytes": [180_000, 180_000],
        "compile_seconds": [15.0, 15.0],
    }


def test_another_schema_is_an_error_that_names_the_file(build: BuildFolder):
    build.manifest("sm90-cu133")
    path = build.path / "cells" / "sm90-cu133" / "fa3" / "manifest.json"
    path.write_text('{"schema": 2}')
    with pytest.raises(Fa3Error, match=r"manifest\.json.*schema is 2"):
        build.assembled()


def test_report_json_is_what_write_returns(build: BuildFolder):
    build.manifest("sm90-cu133")
    data = report.write(build.path)
    assert _json.read(build.path / "report" / "report.json") == data | {"schema": 1}
