"""The command `run`: what it prints, writes and is reported; with a CPU kernel as sm90-cu133's."""

import argparse
import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from fa3_matrix import report
from fa3_matrix.bench import machine, performance, run_command
from fa3_matrix.bench.measure import Contender
from fa3_matrix.bench.peers import PEERS, Peer
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.results import Stopwatch
from fa3_matrix.bench.session import Session, only
from fa3_matrix.bench.session import main as session_main
from fa3_matrix.bench.timing import HostClock
from fa3_matrix.errors import BenchError, MatrixError
from fa3_matrix.matrix import load

MATRIX = load()
SQUARE = Problem(dtype="bf16", heads_q=4, heads_k=4, head_dim=64, batch=2, seqlen_q=40, seqlen_k=40)
DECODE = Problem(
    dtype="bf16",
    heads_q=4,
    heads_k=4,
    head_dim=64,
    batch=2,
    seqlen_q=4,
    seqlen_k=40,
    causal=True,
)


pytestmark = pytest.mark.usefixtures("quick")


class Absent(Peer):
    """One that is not installed."""

    name, title, version, missing = "absent", "Absent attention", "", "not installed: pip install x"

    def prepare(self, *_):
        raise AssertionError("asked although missing")

    _differs = prepare


@pytest.fixture
def run_on_cpu(monkeypatch, tmp_path, write_build, flash_attention):
    """run(problems, *options, kernel=..) -> (exit code, folder of results)."""
    build = tmp_path / "build"
    folder = write_build(build / "cells" / "sm90-cu133" / "fa3")

    def run(problems: list[Problem], *options: str, kernel=flash_attention) -> tuple[int, Path]:
        session = Session(
            MATRIX, {"sm90-cu133": folder}, {}, "", build / "results", None, Stopwatch()
        )
        monkeypatch.setattr(run_command, "open_session", lambda _: session)
        monkeypatch.setattr(run_command, "suite_problems", lambda *_: problems)
        monkeypatch.setattr(run_command, "PEERS", {**PEERS, "absent": Absent()})
        monkeypatch.setattr(
            Contender, "of_build", lambda arm: Contender(arm.name, lambda *x: partial(kernel, *x))
        )
        on_cpu = partial(performance.Performance, device="cpu", clock=HostClock())
        monkeypatch.setattr(performance, "Performance", on_cpu)
        monkeypatch.setattr(performance, "REPLAYS", 20)
        described = machine.describe() | {"sms": 132}
        monkeypatch.setattr(machine, "describe", lambda: described)
        parser = argparse.ArgumentParser()
        run_command.add_parsers(parser.add_subparsers())
        arguments = parser.parse_args(["run", "--rounds", "2", *options])
        return run_command.run_performance(arguments), build / "results"

    return run


def documents(folder: Path) -> dict[str, dict]:
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}


def test_builds_and_peers_in_one_run(run_on_cpu, capsys, tmp_path: Path):
    code, folder = run_on_cpu(
        [SQUARE, DECODE], "--suite", "tiny,dynamic", "--peers", "sdpa_flash,absent"
    )
    assert code == 0
    lines = capsys.readouterr().out.splitlines()
    found = documents(folder)
    assert set(found) == {"performance-sm90-cu133", "peers"}

    performance_document = found["performance-sm90-cu133"]
    assert (performance_document["state"], performance_document["reason"]) == ("measured", "")
    assert performance_document["suites"] == ["tiny", "dynamic"]
    assert [(row["suite"], row["problem"]) for row in performance_document["results"]] == [
        (suite, problem.id) for suite in ("tiny", "dynamic") for problem in (SQUARE, DECODE)
    ]
    assert performance_document["ceilings"]["gemm_tflops"] > 0

    peers = found["peers"]
    assert (peers["state"], peers["reason"]) == ("measured", "")
    assert peers["ceilings"] == performance_document["ceilings"]
    assert [peer["name"] for peer in peers["peers"]] == ["sdpa_flash", "absent"]
    assert peers["peers"][0]["version"] == torch.__version__
    assert peers["peers"][1]["not_run"] == Absent.missing
    first, second, *_ = peers["results"]
    assert (first["suite"], first["best_peer"]) == ("tiny", "sdpa_flash")
    assert (
        first["arms"]["sm90-cu133"]["median_us"]
        == (performance_document["results"][0]["median_us"])
    ), "the same measurement"
    assert first["arms"]["sdpa_flash"]["graph"]["replays"] == 20
    assert set(second["not_run"]) == {"sdpa_flash", "absent"}
    tiny, _ = peers["summary"]
    assert (tiny["suite"], tiny["compared"], tiny["not_compared"]) == ("tiny", 1, 1)

    assert f"absent: not run: {Absent.missing}" in lines
    assert f"absent: not run on 4 problems: {Absent.missing}" in lines
    progress = [line for line in lines if line.startswith(("1/2 ", "2/2 "))]
    assert len(progress) == 2
    assert "best peer sdpa_flash" in progress[0] and "s left)" in progress[0]
    assert progress[1].endswith("(0 s left)")
    # Both suites hold both problems.
    assert any("4 of 4 problems captured in a CUDA graph" in line for line in lines)

    report.write(tmp_path / "build")
    for name in ("index.html", "report.md"):
        page = (tmp_path / "build" / "report" / name).read_text(encoding="utf-8")
        for words in (torch.__version__, f"not run: {Absent.missing}", "1 of 2", "none ran"):
            assert words in page


def test_every_sample_is_pytest_benchmarks(run_on_cpu):
    code, folder = run_on_cpu([SQUARE], "--suite", "tiny", "--peers", "sdpa_flash")
    assert code == 0
    found = json.loads((folder / "raw" / "pytest-benchmark.json").read_text())
    assert [b["extra_info"]["cell"] for b in found["benchmarks"]] == ["sm90-cu133", "sdpa_flash"]
    row = documents(folder)["performance-sm90-cu133"]["results"][0]
    build, _ = found["benchmarks"]
    assert build["name"] == f"test_forward[sm90-cu133-tiny-{SQUARE.id}]"
    assert build["stats"]["median"] == pytest.approx(row["median_us"] * 1e-6)
    assert build["stats"]["rounds"] == row["rounds"] == 2
    assert build["extra_info"] == {"cell": "sm90-cu133", **row}
    assert list(found["machine_info"]["manifests"]) == ["sm90-cu133"]


def test_without_peers_none_is_timed(run_on_cpu):
    code, folder = run_on_cpu([SQUARE], "--suite", "tiny")
    assert code == 0
    assert set(documents(folder)) == {"performance-sm90-cu133"}


def test_a_wrong_build_fails_the_command(run_on_cpu, flash_attention):
    def wrong(problem, inputs):
        out, lse = flash_attention(problem, inputs)
        return out * 1.5, lse

    code, folder = run_on_cpu([SQUARE], "--suite", "tiny", "--peers", kernel=wrong)
    assert code == 1
    found = documents(folder)
    assert found["peers"]["state"] == "failed"
    assert found["peers"]["reason"].startswith("sm90-cu133 on 1 problems: its output is wrong")
    assert found["peers"]["summary"] == []
    assert found["performance-sm90-cu133"]["state"] == "failed"
    assert "its output is wrong" in found["performance-sm90-cu133"]["reason"]


def test_no_peer_is_not_a_measurement(run_on_cpu):
    code, folder = run_on_cpu([DECODE], "--suite", "tiny", "--peers", "sdpa_flash")
    assert code == 0
    document = documents(folder)["peers"]
    assert document["state"] == "not run"
    assert document["reason"] == "no peer ran any of the problems"


def test_what_takes_the_times_at_the_end_is_looked_for_first(run_on_cpu, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pytest_benchmark.plugin", None)

    def never(*_):
        raise AssertionError("measured before it was looked for")

    with pytest.raises(SystemExit) as ended:
        session_main(lambda _: run_on_cpu([SQUARE], "--suite", "tiny", kernel=never)[0], None)
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "error: this needs the Python package 'pytest_benchmark', which is not installed; "
        "`pip install 'fa3-matrix[bench]'` brings it\n"
    )


def test_an_unknown_peer_is_an_error(run_on_cpu):
    with pytest.raises(BenchError, match=r"no peer is named 'fa2'; there are sdpa_flash, "):
        run_on_cpu([SQUARE], "--peers", "fa2")


CELLS = ("sm80-cu124-on-sm90", "sm90-cu124", "sm90-cu133")


@pytest.fixture
def session() -> Session:
    """Of all of `CELLS`, and of one that cannot run here."""
    builds = {name: Path(name) for name in CELLS}
    refused = {"sm100-cu133": (Path("sm100-cu133"), "does not run here")}
    return Session(MATRIX, builds, refused, "", Path(), None, Stopwatch())


@pytest.mark.parametrize(
    "gpu, arms, builds, refused",
    [
        ("h100", ["cu124", "cu133"], ["sm90-cu124", "sm90-cu133"], []),
        ("h100", ["sm80-cu124-on-sm90", "cu133"], ["sm80-cu124-on-sm90", "sm90-cu133"], []),
        (None, ["cu133"], ["sm90-cu133"], ["sm100-cu133"]),
        ("b200", ["cu133"], [], ["sm100-cu133"]),
    ],
)
def test_arms_are_cells_or_this_gpus_of_a_toolkit(
    monkeypatch, session: Session, gpu, arms, builds, refused
):
    here = session.matrix.gpu(gpu) if gpu else None
    monkeypatch.setattr(machine, "gpu_here", lambda _: here)
    chosen = only(session, arms)
    assert list(chosen.builds) == builds
    assert list(chosen.refused) == refused


def test_an_arm_that_is_not_there_is_an_error(monkeypatch, session: Session):
    monkeypatch.setattr(machine, "gpu_here", lambda matrix: matrix.gpu("a100"))
    with pytest.raises(BenchError, match=r"cu133: sm80-cu133 is not built; there is sm80-cu124"):
        only(session, ["cu133"])
    monkeypatch.setattr(machine, "gpu_here", lambda _: None)
    nothing = replace(session, builds={}, refused={})
    with pytest.raises(BenchError, match=r"cu124: none of sm80-cu124, sm90-cu124, .* is built"):
        only(nothing, ["cu124"])
    with pytest.raises(MatrixError, match="no cell is named 'cu999'"):
        only(session, ["cu999"])
