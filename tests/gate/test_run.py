"""A gate's run: what is planned of two builds, that only flagged cells are timed again, and what is told of failures.

The timing of `run_trials` is simulated; all else is what runs on a GPU.
"""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fa3_matrix import _json
from fa3_matrix.bench import machine
from fa3_matrix.bench.builds import BuildArm
from fa3_matrix.bench.results import Document, arm_identity, manifest_sha256
from fa3_matrix.bench.suites import suite_problems
from fa3_matrix.build import Manifest
from fa3_matrix.gate import run as gate_run
from fa3_matrix.gate.__main__ import main
from fa3_matrix.gate.arms import NamedBuild
from fa3_matrix.gate.outcome import Outcome
from fa3_matrix.matrix import load

from ..bench.conftest import write_build

LIMITS = replace(load().gate, screen_trials=4, confirm_trials=6, pairs=6)
PROBLEMS = [("gate", problem) for problem in suite_problems("gate")]
SLOW = "m192n128"  # of head_dim 64, long sequences


@pytest.fixture
def builds(tmp_path) -> tuple[NamedBuild, NamedBuild]:
    """A base, and a head of which two variants are other code: one of them faster, one slower."""
    base, head = write_build(tmp_path / "base"), write_build(tmp_path / "head")
    manifest = Manifest.read(head)
    changed = [
        replace(v, sass=replace(v.sass, sha256="1" * 64, opcodes={"STL": 9}, instructions=10))
        if v.head_dim in (64, 128) and v.kernel == "sm90"
        else v
        for v in manifest.variants
    ]
    replace(manifest, variants=changed).write(head)
    return NamedBuild("main", base), NamedBuild("branch", head)


@pytest.fixture
def simulated(monkeypatch) -> Callable[[str, float], list[Any]]:
    """Lets trials give times in which head's variants whose name holds a text take longer; returns the plans timed."""

    def simulate(slow: str, longer: float) -> list[Any]:
        plans: list[Any] = []
        clock = [datetime(2030, 1, 1, tzinfo=UTC)]

        def run_trials(plan, count, seeds: random.Random, *, done):
            plans.append(plan)
            base = BuildArm.open(plan.base)
            ((name, folder),) = plan.heads.items()
            documents = []
            for number in range(count):
                clock[0] += timedelta(minutes=1)
                seed = seeds.randrange(2**31)
                draw = np.random.default_rng(seed)
                documents.append(
                    [
                        {
                            "schema": 1,
                            "kind": "trial",
                            "stage": plan.stage,
                            "number": number,
                            "seed": seed,
                            "started": clock[0].isoformat(),
                            "seconds": 1.0,
                            "load_order": [name, plan.base_name],
                            "arms": {
                                "base": arm_identity(plan.base_name, base.name, base.folder),
                                "head": arm_identity(name, BuildArm.open(folder).name, folder),
                            },
                            "gpu": {"name": "H200", "uuid": "u", "driver": "580", "torch": "2.11"},
                            "cells": [
                                cell(base, planned, plan.pairs, draw) for planned in plan.cells
                            ],
                        }
                    ]
                )
                done(number + 1)
            return documents

        def cell(base, planned, pairs, draw):
            from fa3_matrix.bench.problems import Problem

            problem = Problem.parse(planned.problem)
            variant = base.variant(problem).name
            is_slow = slow in variant and planned.control is None
            head = 1e5 * np.exp(draw.normal(math.log1p(longer * is_slow), 0.002, pairs))
            none = [None] * pairs
            return {
                "suite": planned.suite,
                "problem": planned.problem,
                "label": problem.label,
                "variant": {"base": variant, "head": variant},
                "control": planned.control,
                "mode": "cold",
                "calls": 1,
                "failed": None,
                "pairs": {
                    "first": ["base", "head"] * (pairs // 2),
                    "base_ns": (1e5 * np.exp(draw.normal(0, 0.002, pairs))).tolist(),
                    "head_ns": head.tolist(),
                    "base_mhz": none,
                    "head_mhz": none,
                    "watts": none,
                    "celsius": none,
                    "dropped": none,
                },
            }

        monkeypatch.setattr(gate_run, "run_trials", run_trials)
        return plans

    return simulate


def test_alike_arms_pass_after_one_stage(builds, simulated):
    plans = simulated(SLOW, 0.0)
    done = gate_run.run(*builds, PROBLEMS, LIMITS, seed=5)
    assert done.result.outcome is Outcome.PASS, done.result.reasons
    assert [plan.stage for plan in plans] == ["screen"]
    controls = [cell.control for cell in plans[0].cells]
    assert controls.count("twin") == 4
    # Head_dim 256 and splits are the same code in both, and so controls.
    same = {c.problem for c in plans[0].cells if c.control == "same-sass"}
    assert same == {p.id for _, p in PROBLEMS if p.head_dim == 256 or p.max_seqlen_q == 1}
    assert (plans[0].base_name, list(plans[0].heads)) == ("main", ["branch"])


def test_a_slow_variant_is_confirmed_on_fresh_trials_and_explained(builds, simulated):
    plans = simulated(SLOW, 0.02)
    stages: list[tuple[str, int, int]] = []
    done = gate_run.run(
        *builds, PROBLEMS, LIMITS, seed=6, report=lambda *state: stages.append(state)
    )
    assert done.result.outcome is Outcome.FAIL
    assert [plan.stage for plan in plans] == ["screen", "confirm"]
    base = BuildArm.open(builds[0].folder)
    slow = {p.id for _, p in PROBLEMS if SLOW in base.variant(p).name}
    assert slow
    assert {cell.problem for cell in done.result.cells if cell.verdict == "fail"} == slow
    again = {cell.problem for cell in plans[1].cells if cell.control is None}
    assert slow <= again
    assert len(again) < len(PROBLEMS)
    assert {c for c in plans[0].cells if c.control} == {c for c in plans[1].cells if c.control}
    assert len(done.documents) == LIMITS.screen_trials + LIMITS.confirm_trials
    assert stages[0] == ("screen", 0, 4)
    assert stages[-1] == ("confirm", 6, 6)
    for cell in done.as_json()["cells"]:
        assert bool(cell["hints"]) == (cell["verdict"] == "fail")
        assert all("associated with" in hint for hint in cell["hints"])


def profile_of(builds: tuple[NamedBuild, NamedBuild], problem: str) -> Document:
    """Counters of both on a problem, on which head read twice as much."""
    kernel = {"kernel": "fa3_fwd", "role": "forward", "missing": {}}
    return {
        "kind": "profile",
        "arms": [
            {"name": build.name, "manifest_sha256": manifest_sha256(build.folder)}
            for build in builds
        ],
        "results": [
            {
                "problem": problem,
                "kernels": {
                    build.name: [kernel | {"counters": {"dram_read_bytes": read}}]
                    for build, read in zip(builds, (1e6, 2e6), strict=True)
                },
            }
        ],
    }


def test_counters_of_a_profile_join_the_hints(builds, simulated):
    simulated(SLOW, 0.02)
    base = BuildArm.open(builds[0].folder)
    counted, *others = [p.id for _, p in PROBLEMS if SLOW in base.variant(p).name]
    assert others
    profile = profile_of(builds, counted)
    done = gate_run.run(*builds, PROBLEMS, LIMITS, seed=6, profile=profile)
    reads = "more bytes of DRAM reads: 2000000 (base 1000000, +100.0%)"
    told = {key.problem for key, found in done.hints.items() if any(reads in h.text for h in found)}
    assert told == {counted}
    assert {key.problem for key in done.not_profiled} == set(others)


def test_the_command_names_what_would_count_failed_cells(
    builds, simulated, root, monkeypatch, capsys
):
    simulated(SLOW, 0.03)
    monkeypatch.setattr(machine, "why_no_gpu", lambda: "")
    monkeypatch.setattr(machine, "gpu_here", lambda matrix: matrix.gpu("h100"))
    base, head = builds
    slow = [p.id for _, p in PROBLEMS if SLOW in BuildArm.open(base.folder).variant(p).name]
    run = ["run", "--base", str(base.folder), "--head", str(head.folder), "--cell", "sm90-cu133"]
    assert main([*run, "--seed", "3"]) == Outcome.FAIL.exit_code
    command = f"nox -s profile-h100 -- --problem {' '.join(slow)} --arms base={base.folder} head={head.folder}\n"
    assert command in capsys.readouterr().out
    _json.write_atomic(root / "build" / "results" / "profile.json", profile_of(builds, slow[0]))
    assert main([*run, "--seed", "3"]) == Outcome.FAIL.exit_code
    said = capsys.readouterr().out
    assert "more bytes of DRAM reads: 2000000" in said
    assert f"--problem {' '.join(slow[1:])} --arms" in said


def test_the_same_seed_draws_the_same_trials(builds, simulated):
    simulated(SLOW, 0.0)
    first, second = (gate_run.run(*builds, PROBLEMS[:3], LIMITS, seed=7) for _ in range(2))
    assert [d["seed"] for d in first.documents] == [d["seed"] for d in second.documents]


def test_a_problem_that_an_arm_does_not_serve_has_no_pair(builds, simulated):
    simulated(SLOW, 0.0)
    base, head = builds
    manifest = Manifest.read(head.folder)
    kept = [variant for variant in manifest.variants if variant.head_dim != 256]
    replace(manifest, variants=kept).write(head.folder)
    done = gate_run.run(base, head, PROBLEMS, LIMITS, seed=8)
    missing = {cell.problem: cell.reason for cell in done.result.cells if cell.verdict == "no-pair"}
    assert set(missing) == {p.id for _, p in PROBLEMS if p.head_dim == 256}
    assert all("serves no" in reason for reason in missing.values())
    assert done.result.outcome is Outcome.PASS


def test_arms_of_one_name_are_told_apart(builds, simulated):
    plans = simulated(SLOW, 0.0)
    same = NamedBuild("main", Path(builds[1].folder))
    trials, documents, no_pair = gate_run.time(builds[0], same, PROBLEMS[:2], LIMITS, 9, trials=2)
    assert (plans[0].base_name, list(plans[0].heads)) == ("base", ["head"])
    assert len(trials) == len(documents) == 2
    assert not no_pair
