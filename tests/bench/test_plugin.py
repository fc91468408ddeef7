"""The pytest plugin: nothing in sessions that don't ask for it, device times in those that do."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pytest_benchmark.cli import main

from fa3_matrix.bench import machine

ROOT = Path(__file__).parents[2]
PROBE = """
import sys

def pytest_unconfigure(config):
    print("loaded:", config.pluginmanager.has_plugin("fa3_matrix.bench.plugin"))
    print("torch:", "torch" in sys.modules)
"""
TESTS = """
import time

import pytest
from fa3_matrix.bench.timing import HostClock

def test_of_the_host(benchmark):
    benchmark.pedantic(time.sleep, args=(0.002,), rounds=2, iterations=1)

@pytest.mark.benchmark(group="mine")
def test_replayed(benchmark, device_benchmark):
    device_benchmark.benchmark.extra_info["cell"] = "sm90-cu133"
    device_benchmark.replay([3e-3, 1e-3, 2e-3, 5e-3])

def test_timed(device_benchmark):
    samples = device_benchmark(lambda: time.sleep(0.002), rounds=3, clock=HostClock())
    assert len(samples.seconds) == 3

def test_of_a_gpu(device_benchmark):
    device_benchmark(lambda: None)
"""


@pytest.fixture
def session(tmp_path: Path):
    """session(*arguments, tests=..) -> what pytest printed, in a folder of its own where the plugin is installed."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    metadata = tmp_path / "installed" / "installed_fa3_matrix-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Name: installed-fa3-matrix\nVersion: 1\n")
    points = declared["entry-points"]["pytest11"].items()
    (metadata / "entry_points.txt").write_text(
        "[pytest11]\n" + "".join(f"{name} = {module}\n" for name, module in points)
    )
    (metadata.parent / "probe.py").write_text(PROBE)
    folder = tmp_path / "project"
    folder.mkdir()

    def run(
        *arguments: str, tests: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        if tests:
            (folder / "test_project.py").write_text(tests)
        path = os.pathsep.join([str(ROOT / "src"), str(metadata.parent)])
        return subprocess.run(
            [*(sys.executable, "-m", "pytest", "-rs", "-p", "probe"), *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a_session_without_the_fixture_imports_no_torch(session):
    done = session("--collect-only")
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stderr
    assert "loaded: True" in done.stdout
    assert "torch: False" in done.stdout


def test_other_benchmarks_are_left_alone(session, tmp_path: Path):
    tests = "def test_plain(benchmark):\n    benchmark.pedantic(lambda: None, rounds=2)\n"
    output = tmp_path / "out.json"
    done = session(f"--benchmark-json={output}", tests=tests)
    assert done.returncode == 0, done.stdout
    assert "torch: False" in done.stdout
    document = json.loads(output.read_text())
    assert {"gpu", "manifests"}.isdisjoint(document["machine_info"])
    assert document["benchmarks"][0]["stats"]["median"] > 0


@pytest.mark.skipif(not machine.why_no_gpu(), reason="shows what happens without a GPU")
def test_device_times_are_pytest_benchmarks(
    session, tmp_path: Path, write_build, monkeypatch, capsys
):
    build = write_build(tmp_path / "sm90-cu133" / "fa3")
    output = tmp_path / "out.json"
    # Named by -p too, as where entry points are not loaded by themselves: it is the same plugin.
    done = session(
        *("-p", "fa3_matrix.bench.plugin", f"--benchmark-json={output}"),
        tests=TESTS,
        FA3_BUILD=str(build),
    )
    assert done.returncode == 0, done.stdout
    assert "3 passed, 1 skipped" in done.stdout
    assert machine.why_no_gpu() in done.stdout

    document = json.loads(output.read_text())
    host, replayed, timed = document["benchmarks"]
    assert host["stats"]["min"] >= 0.002, "its timer is still the wall's"
    assert replayed["stats"]["data"] == pytest.approx([3e-3, 1e-3, 2e-3, 5e-3])
    assert replayed["stats"]["median"] == pytest.approx(2.5e-3)
    assert replayed["stats"]["ops"] == pytest.approx(1 / 2.75e-3), "calls a second, by the mean"
    assert (replayed["group"], replayed["extra_info"]) == ("mine", {"cell": "sm90-cu133"})
    assert timed["stats"]["min"] >= 0.002
    assert timed["extra_info"]["mode"] == "launch"
    assert set(document["machine_info"]["gpu"]) == {"gpu", "driver", "uuid", "torch", "clocks"}
    assert list(document["machine_info"]["manifests"]) == ["sm90-cu133"]

    compare = ["pytest-benchmark", "compare", str(output), "--columns=median,ops"]
    monkeypatch.setattr(sys, "argv", compare)
    main()
    printed = capsys.readouterr().out.splitlines()
    (row,) = (line for line in printed if line.startswith("test_replayed"))
    median, ops = (text for text in row.split()[1:] if not text.startswith("("))
    assert (median, ops) == ("2.5000", "363.6364"), "milliseconds, and calls a second"


@pytest.mark.skipif(not machine.why_no_gpu(), reason="shows what happens without a GPU")
def test_a_required_gpu_that_is_missing_fails(session):
    tests = "def test_of_a_gpu(device_benchmark):\n    device_benchmark(lambda: None)\n"
    done = session(tests=tests, FA3_REQUIRE_GPU="1")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert f"FA3_REQUIRE_GPU=1, but {machine.why_no_gpu()}" in done.stdout
