"""A trial in full, with the CPU kernel in the place of a GPU's: the document is what the gate reads."""

import math
from dataclasses import replace
from functools import partial

import pytest

from fa3_matrix.bench import machine
from fa3_matrix.bench.measure import Contender
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.timing import HostClock
from fa3_matrix.bench.trial import Trial
from fa3_matrix.bench.trial_plan import Plan, PlannedCell
from fa3_matrix.gate.trials import CellKey, read_trial

SHORT = Problem(dtype="bf16", heads_q=2, heads_k=1, head_dim=64, batch=1, seqlen_q=70, seqlen_k=70)
OTHER = replace(SHORT, causal=True)


@pytest.fixture
def plan(write_build, tmp_path) -> Plan:
    return Plan(
        base=write_build(tmp_path / "base"),
        base_name="main",
        heads={"branch": write_build(tmp_path / "head"), "same": tmp_path / "base"},
        cells=[
            PlannedCell("tiny", SHORT.id),
            PlannedCell("tiny", SHORT.id, "twin"),
            PlannedCell("tiny", OTHER.id, "same-sass"),
        ],
        stage="screen",
        pairs=7,
        number=3,
        seed=11,
    )


@pytest.fixture
def on_cpu(monkeypatch, flash_attention):
    """Trials whose arms call the CPU kernel; the one named `wrong` gets its output wrong."""
    here = {"gpu": "a CPU", "uuid": "none", "driver": "none", "torch": "2"}
    monkeypatch.setattr(machine, "describe", lambda: here)

    def make(plan: Plan, wrong: str | None = None) -> Trial:
        def kernel(name, problem, inputs):
            out, lse = flash_attention(problem, inputs)
            return out * (1.5 if name == wrong else 1), lse

        class OnCpu(Trial):
            def contender(self, name: str) -> Contender:
                return Contender(name, lambda *given: partial(kernel, name, *given))

        return OnCpu(plan, "cpu", HostClock())

    return make


def test_each_head_gets_a_document_that_the_gate_reads(plan, on_cpu):
    seen = []
    documents = on_cpu(plan).run(lambda done, of: seen.append((done, of)))
    assert seen == [(1, 2), (2, 2)]
    for document, head in zip(documents, ("branch", "same"), strict=True):
        trial = read_trial(document, head)
        assert (trial.stage, trial.number, trial.seed) == ("screen", 3, 11)
        assert (trial.base.name, trial.head.name) == ("main", head)
        assert {*document["load_order"]} >= {"main", head}
        assert {*trial.cells} == {
            CellKey("tiny", SHORT.id, "cold"),
            CellKey("tiny", SHORT.id, "cold", "twin"),
            CellKey("tiny", OTHER.id, "cold", "same-sass"),
        }
        for cell in trial.cells.values():
            assert len(cell.base_ns) == len(cell.dropped) == 7
            assert math.isfinite(cell.statistic)
        for cell in document["cells"]:
            assert cell["calls"] >= 1
            assert cell["variant"]["base"].startswith("fa3_fwd_sm90_bf16_d64_")
    # A twin is timed once, whichever heads there are.
    twins = [next(c for c in d["cells"] if c["control"] == "twin") for d in documents]
    assert twins[0]["pairs"] == twins[1]["pairs"]


def test_what_is_drawn_follows_from_the_seed(plan, on_cpu):
    def drawn(seed: int):
        (document, _) = on_cpu(plan.trial(0, seed)).run()
        order = [(cell["problem"], cell["control"]) for cell in document["cells"]]
        return document["load_order"], order, [cell["pairs"]["first"] for cell in document["cells"]]

    first = drawn(1)
    assert drawn(1) == first
    assert any(drawn(seed) != first for seed in range(2, 6))


def test_an_arm_whose_output_is_wrong_is_not_timed(plan, on_cpu):
    branch, same = on_cpu(plan, wrong="branch").run()
    failed = {cell["control"]: cell["failed"] for cell in branch["cells"]}
    assert failed["twin"] is None
    assert failed[None].startswith("branch: its output is wrong")
    assert all(cell["failed"] is None for cell in same["cells"])
    everything = on_cpu(plan, wrong="main").run()
    for document in everything:
        assert all(cell["failed"].startswith("main: ") for cell in document["cells"])
        read_trial(document, "all failed")
