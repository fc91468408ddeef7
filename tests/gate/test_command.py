"""The command line: exit codes mean one thing each, and what is missing is a sentence."""

import json
import lzma

import pytest

from fa3_matrix import _json
from fa3_matrix.bench import machine
from fa3_matrix.gate.__main__ import main

from ..bench.conftest import write_build
from .simulation import document
from .test_proof import calibration

WITHOUT_GPU = pytest.mark.skipif(not machine.why_no_gpu(), reason="this machine has a GPU")


@WITHOUT_GPU
@pytest.mark.usefixtures("root")
def test_a_gate_without_a_gpu_is_incomplete_and_never_green(capsys):
    assert main(["run", "--base", "sm90-cu124"]) == 11
    assert capsys.readouterr().err.startswith("incomplete: no NVIDIA driver")
    assert main(["run", "--base", "sm90-cu124", "--gpu", "h100"]) == 11


@WITHOUT_GPU
@pytest.mark.usefixtures("root")
def test_a_comparison_without_a_gpu_could_not_start(capsys):
    assert main(["compare", "sm90-cu124", "sm90-cu133"]) == 2
    assert "error: times need a GPU: no NVIDIA driver" in capsys.readouterr().err


def test_the_static_gate_passes_the_same_build_and_fails_a_lost_variant(root, tmp_path, capsys):
    from dataclasses import replace

    from fa3_matrix.build import Manifest

    base, head = write_build(tmp_path / "base"), write_build(tmp_path / "head")
    arms = ["--base", str(base), "--head", str(head), "--cell", "sm90-cu133"]
    assert main(["static", *arms]) == 0
    assert capsys.readouterr().out == "pass: sm90-cu133 pass\n"
    manifest = Manifest.read(head)
    replace(manifest, variants=manifest.variants[1:]).write(head)
    assert main(["static", *arms]) == 9
    said = capsys.readouterr().out
    assert said.startswith("fail: sm90-cu133 fail\n  lost-variant: ")
    written = _json.read(root / "build" / "results" / "static-gate.json")
    assert written["verdict"] == "fail"


@pytest.mark.usefixtures("root")
def test_an_arm_that_is_nothing_is_named(capsys):
    assert main(["static", "--base", "nowhere.whl", "--cell", "sm90-cu133"]) == 2
    assert "nowhere.whl: no such wheel" in capsys.readouterr().err


def test_error_rates_are_printed_for_each_head(tmp_path, capsys):
    measured = calibration(16, {"same": 0.0, "slow": 0.03})
    processes = [
        [document(trials[process]) for trials in measured.trials.values()] for process in range(16)
    ]
    path = tmp_path / "trials.json.xz"
    path.write_bytes(lzma.compress(json.dumps(processes).encode()))
    assert main(["prove", str(path), "--runs", "3", "--slowed", "2"]) == 0
    _, same, slow = capsys.readouterr().out.splitlines()
    assert same.startswith("0 cells same | 0/3 (")
    assert slow.startswith("2 cells slow | 0/3 (")
    assert " | 6/6 (" in slow
