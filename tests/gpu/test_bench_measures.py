"""What `bench run` measures beside times: ceilings, footprints, launches, graphs; and the command and the plugin."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from fa3_matrix import _json  # noqa: E402
from fa3_matrix.bench import machine  # noqa: E402
from fa3_matrix.bench.builds import BuildArm  # noqa: E402
from fa3_matrix.bench.ceilings import measure_ceilings  # noqa: E402
from fa3_matrix.bench.footprint import CudaAllocator, footprint  # noqa: E402
from fa3_matrix.bench.measure import Contender, measure  # noqa: E402
from fa3_matrix.bench.problems import Problem  # noqa: E402

pytestmark = pytest.mark.gpu

PREFILL = Problem.parse("dense_bf16_d64_h16-16_b4_q512_k512_causal_s0")
SPLIT = Problem.parse("dense_bf16_d128_h8-1_b1_q1_k8192_splits4_causal_s0")
SOURCE = Path(__file__).parents[2] / "src"


def test_ceilings_are_a_gpus():
    found = measure_ceilings(random.Random(0))
    # From below an A30's to beyond what is announced; a unit that is wrong by 1000 is outside.
    assert 50 < found.gemm_tflops < 10_000
    assert 500 < found.copy_gb_per_s < 30_000


def test_footprint_counts_what_is_kept_and_what_is_not():
    def call():
        workspace = torch.empty(3_000_000, dtype=torch.uint8, device="cuda")
        output = torch.empty(1000, dtype=torch.uint8, device="cuda")
        del workspace
        return output

    found = footprint(call, CudaAllocator())
    assert (found.output_bytes, found.workspace_bytes) == (1000, 3_000_000)


def test_a_builds_call_allocates_its_outputs_and_partial_results(build: Path):
    contender = Contender.of_build(BuildArm.open(build))
    for problem, has_workspace in ((PREFILL, False), (SPLIT, True)):
        outcome = measure(problem, [contender], rounds=2, order=random.Random(0))
        assert outcome.not_timed == {}
        memory = outcome.timed[contender.name].memory
        rows = problem.batch * problem.seqlen_q * problem.heads_q
        assert memory.output_bytes == rows * problem.head_dim * 2
        # The lse is not returned: with it or without, that of the splits' partial results is far more.
        assert (memory.workspace_bytes > rows * 4) == has_workspace


def test_launches_take_longer_than_replays(build: Path):
    contender = Contender.of_build(BuildArm.open(build))
    outcome = measure(PREFILL, [contender], rounds=3, order=random.Random(0), replays=200)
    measured = outcome.timed[contender.name]
    assert measured.samples.mode == "graph"
    assert measured.replays.error == ""
    assert len(measured.replays.seconds) == 200
    graph = measured.replays.as_json()
    assert 0 < graph["p50_us"] <= graph["p99_us"] <= graph["p999_us"]
    # A launch on an idle GPU waits for the host; a replay behind another one does not.
    assert measured.launch.idle * 1e6 > graph["p50_us"]
    assert measured.launch.host < measured.launch.idle


def test_what_cannot_be_captured_says_why_and_keeps_no_other():
    """In a process of its own: a broken capture may leave PyTorch's random numbers unusable."""
    run_python(
        "-c",
        """
import random
import torch
from fa3_matrix.bench.graphs import replay_times
from fa3_matrix.bench.timing import Arm, CudaClock, interleave

one, values = torch.ones(1, device="cuda"), torch.zeros(2**16, device="cuda")
# Waits for the device, which a capture forbids.
refusing = Arm("refusing", lambda: None, lambda _: one.item())
fine = Arm("fine", lambda: None, lambda _: values.add_(1))
stream = torch.cuda.current_stream()

times = replay_times([refusing, fine], order=random.Random(0), clock=CudaClock(), count=120)
assert "captur" in times["refusing"].error, times["refusing"].error
assert times["refusing"].seconds == []
assert len(times["fine"].seconds) == 120
assert min(times["fine"].seconds) > 0
assert torch.cuda.current_stream() == stream

def modes(*arms):
    samples = interleave(arms, rounds=2, order=random.Random(0), clock=CudaClock())
    return {found.mode for found in samples.values()}

assert modes(fine, refusing) == {"launch"}
assert modes(fine) == {"graph"}
print(times["refusing"].error)
""",
    )


def run_python(*arguments: str, **more) -> str:
    """Its output; fails with all that it said."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
        **more,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_command_writes_what_the_report_reads(build_folders: list[Path], tmp_path: Path):
    build = build_folders[0]
    said = run_python(
        *("-m", "fa3_matrix.bench", "run", "--build", str(build), "--results", str(tmp_path)),
        *("--suite", "launch", "--peers", "sdpa_flash", "--rounds", "3"),
    )
    cell = BuildArm.open(build).name
    document = _json.read(tmp_path / f"performance-{cell}.json")
    assert document["state"] == "measured"
    for row in document["results"]:
        assert row["median_us"] < row["idle_us"] < 1000
        assert 0 < row["of_copy"] < 1
        rows = Problem.parse(row["problem"]).seqlen_q
        assert row["memory"]["output_bytes"] == rows * 64 * 2
    here = machine.describe()
    assert document["machine"]["clocks"]["power_limit_watts"] > 0
    peers = _json.read(tmp_path / "peers.json")
    assert set(peers["results"][1]["arms"]) == {cell, "sdpa_flash"}
    raw = json.loads((tmp_path / "raw" / "pytest-benchmark.json").read_text())
    assert raw["machine_info"]["gpu"]["uuid"] == here["uuid"]
    assert list(raw["machine_info"]["manifests"]) == [cell]
    assert "1/2  bf16 d64 b1 h1 q1 k1:" in said


def test_the_plugin_times_the_gpu(tmp_path: Path):
    (tmp_path / "test_mine.py").write_text(
        "import torch\n"
        "def test_mine(device_benchmark):\n"
        "    a = torch.randn(2048, 2048, device='cuda', dtype=torch.bfloat16)\n"
        "    samples = device_benchmark(lambda: a @ a, rounds=5)\n"
        # 17 GFLOP: no GPU needs a hundredth of a second, nor less than a microsecond.
        "    assert 1e-6 < samples.median < 1e-2\n"
    )
    run_python(
        *("-m", "pytest", "-q", "-p", "fa3_matrix.bench.plugin", "-p", "no:cacheprovider"),
        *("--benchmark-json=out.json", "test_mine.py"),
        cwd=tmp_path,
    )
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["machine_info"]["gpu"]["gpu"] == machine.describe()["gpu"]
    assert found["benchmarks"][0]["stats"]["rounds"] == 5
