"""The commands on a machine that cannot run a kernel, and what they leave for the report."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fa3_matrix
from fa3_matrix import _json
from fa3_matrix.bench import machine
from fa3_matrix.bench.results import manifest_sha256
from fa3_matrix.bench.session import Session, why_not_on
from fa3_matrix.build import Manifest
from fa3_matrix.matrix import ComputeCapability, load

MATRIX = load()

without_gpu = pytest.mark.skipif(
    not machine.why_no_gpu(), reason="shows what happens on a machine without a GPU"
)


def bench(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(fa3_matrix.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-m", "fa3_matrix.bench", *arguments],
        env={**os.environ, "PYTHONPATH": source, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@without_gpu
@pytest.mark.parametrize(
    "command, kind",
    [("correctness", "correctness"), ("smoke", "correctness"), ("run", "performance")],
)
def test_without_a_gpu_every_build_is_not_run(command: str, kind: str, tmp_path: Path, write_build):
    folder = write_build(tmp_path / "sm90-cu133" / "fa3")
    done = bench(command, "--build", str(folder.parent), "--results", str(tmp_path / "results"))
    assert done.returncode == 0
    assert "sm90-cu133: not run: no NVIDIA driver" in done.stdout
    document = json.loads((tmp_path / "results" / f"{kind}-sm90-cu133.json").read_text())
    assert document["state"] == "not run"
    assert document["reason"] == "no NVIDIA driver"
    assert document["machine"]["gpu"] is None
    assert document["manifest_sha256"] == manifest_sha256(folder)


@without_gpu
def test_a_required_gpu_that_is_missing_is_an_error(tmp_path: Path, write_build):
    folder = write_build(tmp_path / "fa3")
    arguments = ("--build", str(folder), "--results", str(tmp_path / "results"))
    done = bench("correctness", *arguments, FA3_REQUIRE_GPU="1")
    assert done.returncode == 2
    assert "FA3_REQUIRE_GPU=1, but no NVIDIA driver" in done.stderr
    done = bench("run", "--gpu", "b200", *arguments, FA3_REQUIRE_GPU="1")
    assert "b200 wanted: no NVIDIA driver" in done.stderr


def test_a_folder_without_a_build_is_an_error(tmp_path: Path):
    done = bench("run", "--build", str(tmp_path))
    assert done.returncode == 2
    assert "holds no build" in done.stderr


def session(folder: Path) -> Session:
    return Session(MATRIX, {}, {}, "", folder, None, None)


def document(state: str, suite: str, build: str = "a") -> dict[str, object]:
    return {
        "kind": "correctness",
        "cell": "sm90-cu133",
        "state": state,
        "suite": suite,
        "manifest_sha256": build,
    }


@pytest.mark.parametrize(
    "before, after, replaced",
    [
        (document("passed", "random+fixed"), document("not run", "smoke"), False),
        (document("failed", "random+fixed"), document("not run", "smoke"), False),
        (document("passed", "random+fixed"), document("passed", "smoke"), False),
        (document("passed", "random+fixed"), document("failed", "smoke"), True),
        (document("passed", "smoke"), document("passed", "smoke"), True),
        (document("passed", "smoke"), document("passed", "random+fixed"), True),
        (document("not run", "smoke"), document("not run", "random"), True),
        (document("passed", "random+fixed"), document("not run", "smoke", "b"), True),
    ],
)
def test_a_result_is_not_replaced_by_one_that_says_less(
    before: dict, after: dict, replaced: bool, tmp_path: Path
):
    path = tmp_path / "correctness-sm90-cu133.json"
    session(tmp_path).write([before])
    session(tmp_path).write([after])
    expected = after if replaced else before
    assert _json.read(path) == {"schema": 1, **expected}


@pytest.mark.parametrize(
    "cell, capability, runs",
    [
        ("sm90-cu133", (9, 0), True),
        ("sm90-cu133", (10, 0), False),
        ("sm80-cu124", (9, 0), False),
        ("sm80-cu124-on-sm90", (9, 0), True),
        ("sm100-cu124", (9, 0), True),
        ("sm100-cu124", (10, 3), True),
        ("sm100-cu133", (9, 0), False),
    ],
)
def test_which_builds_a_gpu_loads(
    cell: str, capability: tuple[int, int], runs: bool, tmp_path: Path, write_build
):
    manifest = Manifest.read(write_build(tmp_path / "fa3", cell))
    reason = why_not_on(manifest, ComputeCapability(*capability))
    assert bool(reason) != runs


def test_the_driver_version_is_read_from_the_kernel_modules_file(tmp_path: Path):
    file = tmp_path / "version"
    for text in (
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.03  Tue Sep  9 12:00:00 UTC 2026\n",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.03  Release Build\n",
    ):
        file.write_text(text)
        assert machine._driver_from_proc(file) == "580.159.03"
    assert machine._driver_from_proc(tmp_path / "none") is None
