"""Peers: what each computes, what it is not asked, and what becomes of their times; with CPU kernels for a GPU's."""

import math
import random
import sys
import time
import types
import warnings
from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fa3_matrix.bench import comparison, measure, timing
from fa3_matrix.bench.ceilings import Ceilings
from fa3_matrix.bench.inputs import make_inputs
from fa3_matrix.bench.measure import Contender, Measurement, Outcome
from fa3_matrix.bench.peers import PEERS, FlashAttention3
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.timing import HostClock, Launch, Samples

CEILINGS = Ceilings(gemm_tflops=800.0, copy_gb_per_s=4000.0, gemm="g", copy="c")
SQUARE = {"dtype": "bf16", "heads_q": 4, "heads_k": 4, "head_dim": 64, "batch": 2}
SQUARE |= {"seqlen_q": 40, "seqlen_k": 40}
SDPA = ("sdpa_flash", "sdpa_cudnn")


def dense(**change) -> Problem:
    return Problem(**SQUARE | change)


PACKED = Problem.varlen(
    dtype="bf16", heads_q=4, heads_k=2, head_dim=64, lengths_q=[5, 0, 9], lengths_k=[7, 3, 9]
)


CACHE = Problem.kvcache(
    dtype="bf16",
    heads_q=4,
    heads_k=2,
    head_dim=64,
    seqlen_q=1,
    seqlen_k=32,
    page_size=16,
    used_k=[20, 32],
    new_rows=1,
    num_splits=3,
    causal=True,
)


@pytest.fixture
def fake_flash_attn_3(monkeypatch, flash_attention):
    """A module like FlashAttention-3's: fake(problem) makes its functions compute that problem."""
    calls = []

    def fake(problem: Problem) -> list:
        def function(name):
            def call(q, k, v, *positional, **options):
                calls.append((name, positional, options))
                inputs = make_inputs(problem, "cpu", guard=0, unused=0)
                inputs = replace(inputs, q=q, k=k, v=v)
                return flash_attention(problem, inputs)[0]

            return call

        module = types.ModuleType("flash_attn_interface")
        for name in ("flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache"):
            setattr(module, name, function(name))
        monkeypatch.setitem(sys.modules, "flash_attn_interface", module)
        return calls

    return fake


def measured(problem: Problem, *contenders: Contender, rounds: int = 1) -> Outcome:
    return measure.measure(
        problem,
        contenders,
        rounds=rounds,
        order=random.Random(0),
        device="cpu",
        clock=HostClock(),
    )


def test_the_registry_names_each_peer_once_and_says_what_is_installed():
    assert list(PEERS) == ["sdpa_flash", "sdpa_cudnn", "flash_attn_3"]
    for name, peer in PEERS.items():
        assert peer.name == name
        assert bool(peer.version) != bool(peer.missing)
        assert peer.why_not(dense()) == peer.missing
    assert PEERS["sdpa_flash"].version == torch.__version__


def test_cudnn_states_its_own_version(monkeypatch):
    peer = type(PEERS["sdpa_cudnn"])("sdpa_cudnn", "", "CUDNN_ATTENTION")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91002)
    assert (peer.version, peer.missing) == ("9.10.2", "")
    peer = type(peer)("sdpa_cudnn", "", "CUDNN_ATTENTION")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: None)
    assert (peer.version, peer.missing) == ("", "this torch has no cuDNN")


@pytest.mark.parametrize("name", SDPA)
@pytest.mark.parametrize(
    "problem, reason",
    [
        (dense(), ""),
        (dense(causal=True), ""),
        (dense(heads_k=1), ""),
        (dense(seqlen_q=4), ""),
        (dense(seqlen_q=1, causal=True), ""),
        (dense(seqlen_q=4, causal=True), "top left"),
        (dense(seqlen_k=4, causal=True), "top left"),
        (dense(window=(4, 0)), "window"),
        (dense(softcap=15.0), "softcap"),
        (PACKED, "packed"),
        (CACHE, "KV cache"),
    ],
    ids=str,
)
def test_sdpa_is_asked_what_it_computes_alike(monkeypatch, name: str, problem, reason: str):
    peer = PEERS[name]
    monkeypatch.setattr(type(peer), "missing", "")
    assert (reason in peer.why_not(problem)) and bool(reason) == bool(peer.why_not(problem))


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"causal": True},
        {"scale": 0.3},
        {"heads_k": 2},
        {"seqlen_q": 1, "causal": True, "heads_k": 1},
    ],
    ids=str,
)
def test_sdpa_is_called_with_the_same_meaning(change: dict):
    """PyTorch's CPU flash kernel answers to the same backend name."""
    outcome = measured(dense(**change), Contender.of_peer(PEERS["sdpa_flash"]))
    assert outcome.not_timed == {}
    assert outcome.timed["sdpa_flash"].samples.median > 0


def test_sdpas_calls_are_of_the_inputs_themselves():
    problem = dense()
    inputs = make_inputs(problem, "cpu", guard=0)
    call = PEERS["sdpa_flash"].prepare(problem, inputs)
    before, lse = call()
    assert lse is None and before.shape == problem.shape_q
    inputs.v.zero_()
    assert not call()[0].any()


@pytest.mark.parametrize(
    "problem, function",
    [
        (dense(causal=True), "flash_attn_func"),
        (dense(seqlen_k=20), "flash_attn_func"),
        (dense(window=(8, 0), softcap=5.0), "flash_attn_func"),
        (dense(seqlen_q=1, heads_k=1, causal=True), "flash_attn_with_kvcache"),
        (dense(seqlen_q=4, causal=True), "flash_attn_with_kvcache"),
        (PACKED, "flash_attn_varlen_func"),
        (CACHE, "flash_attn_with_kvcache"),
        (replace(CACHE, page_size=0, new_rows=0), "flash_attn_with_kvcache"),
    ],
    ids=str,
)
def test_flash_attn_3_is_called_by_the_kind_of_problem(problem, function: str, fake_flash_attn_3):
    calls = fake_flash_attn_3(problem)
    peer = FlashAttention3()
    assert peer.why_not(problem) == ""
    assert measured(problem, Contender.of_peer(peer)).not_timed == {}
    name, positional, options = calls[0]
    assert name == function
    assert options["causal"] == problem.causal
    assert options["window_size"] == problem.window
    if problem.is_varlen:
        begins_q, begins_k, *longest = positional
        assert begins_q.tolist() == [0, 5, 5, 14]
        assert begins_k.tolist() == [0, 7, 10, 19]
        assert longest == [9, 9]
    if problem.is_cache:
        new, page_table = positional, options["page_table"]
        assert [tensor is not None for tensor in new] == [problem.new_rows > 0] * 2
        assert (page_table is not None) == (problem.page_size > 0)
        assert options["cache_seqlens"].tolist() == [20 - problem.new_rows, 32 - problem.new_rows]
        assert (options["cu_seqlens_q"], options["max_seqlen_q"]) == (None, None)
        assert options["num_splits"] == 3


def test_flash_attn_3_from_elsewhere_has_no_known_version(fake_flash_attn_3, monkeypatch):
    fake_flash_attn_3(dense())
    monkeypatch.setattr(FlashAttention3, "_PACKAGE", "no-such-package")
    assert FlashAttention3().version == "unknown"


@pytest.mark.parametrize(
    "source, reason",
    [
        (None, "not installed: pip install tokenspeed-fa3"),
        ("import no_such_module", "cannot be imported: No module named 'no_such_module'"),
        ("raise OSError('libc10_cuda.so')", "cannot be imported: libc10_cuda.so"),
    ],
)
def test_flash_attn_3_that_cannot_be_called_says_why(monkeypatch, tmp_path, source, reason):
    monkeypatch.setattr(FlashAttention3, "_MODULE", "flash_attn_interface_of_this_test")
    monkeypatch.syspath_prepend(tmp_path)
    if source:
        (tmp_path / "flash_attn_interface_of_this_test.py").write_text(source)
    peer = FlashAttention3()
    assert reason in peer.missing
    assert peer.why_not(PACKED) == peer.missing
    assert peer.version == ""


def test_a_peer_at_fault_is_not_timed_and_keeps_no_other_from_it(flash_attention):
    def wrong(problem, inputs):
        return lambda: (flash_attention(problem, inputs)[0] * 1.5, None)

    def refusing(*_):
        def call():
            for words in (
                "Flash attention kernel not used because:",
                "Flash Attention has been runtime disabled.",
                "head_dim should be at most 128",
            ):
                warnings.warn(f"{words} (Triggered internally at sdp_utils.cpp:1)", stacklevel=1)
            raise RuntimeError("No available kernel. Aborting execution.\nC++ trace")

        return call

    outcome = measured(
        dense(),
        Contender("build", lambda *given: partial(flash_attention, *given)),
        Contender("wrong", wrong),
        Contender("refusing", refusing),
    )
    assert list(outcome.timed) == ["build"]
    assert outcome.not_timed["wrong"].startswith("its output is wrong: largest output error is ")
    assert outcome.not_timed["refusing"] == (
        "refuses: No available kernel. Aborting execution.; head_dim should be at most 128"
    )


def test_a_reason_that_torch_gives_once_is_given_each_time():
    def refusing(*_):
        torch.zeros(2, 2).to_sparse_csr()
        raise RuntimeError("No available kernel.")

    for _ in range(2):
        refused = measured(dense(), Contender("refusing", lambda *_: refusing)).not_timed
        assert refused["refusing"].startswith("refuses: No available kernel.; Sparse CSR")


def test_what_a_launch_costs_is_of_the_plain_call(flash_attention):
    problem, plain_calls = dense(), []

    def plain(*_):
        return lambda: (plain_calls.append(1), time.sleep(0.001))

    build = Contender("build", lambda *given: partial(flash_attention, *given), plain=plain)
    found = measured(problem, build).timed["build"]
    assert min(found.launch.host, found.launch.idle) >= 0.001
    # No sample of the problem's time is among them.
    assert len(plain_calls) == 2 * timing._LAUNCH_ROUNDS


def outcome_of(**medians: float) -> Outcome:
    return Outcome(
        {
            name: Measurement(Samples([m], 1, "graph"), Launch(2e-6, 5e-6), 1980)
            for name, m in medians.items()
        },
        {},
    )


def test_a_row_compares_with_the_best_peer():
    problem = dense()
    outcome = outcome_of(a=2.0, b=4.0, slow=9.0, best=3.0)
    entry = comparison.row("s", problem, ["a", "b"], outcome, CEILINGS)
    assert entry["best_peer"] == "best"
    assert entry["ratio"] == {"a": 1.5, "b": 0.75}
    assert entry["arms"]["slow"]["median_us"] == 9e6
    a = entry["arms"]["a"]
    assert a["tflops"] == pytest.approx(problem.flops() / 2 * 1e-12)
    assert a["gb_per_s"] == pytest.approx(problem.min_bytes() / 2 * 1e-9)
    assert a["of_gemm"] == pytest.approx(a["tflops"] / 800)
    assert a["of_copy"] == pytest.approx(a["gb_per_s"] / 4000)
    assert (a["launch_us"], a["idle_us"]) == pytest.approx((2, 5))
    assert (a["memory"], a["graph"]) == (None, None)
    assert (entry["flops"], entry["bytes"]) == (problem.flops(), problem.min_bytes())
    assert (entry["mode"], entry["calls"], entry["sm_mhz"]) == ("graph", 1, 1980)


def test_a_row_without_a_peer_has_no_ratio():
    entry = comparison.row("s", dense(), ["a"], outcome_of(a=2.0), CEILINGS)
    assert (entry["best_peer"], entry["ratio"]) == (None, {})
    nothing = comparison.row("s", dense(), ["a"], Outcome({}, {"a": "refuses: x"}), CEILINGS)
    assert (nothing["arms"], nothing["mode"]) == ({}, None)
    assert comparison.refusals([entry, nothing, nothing]) == {("a", "refuses: x"): 2}
    assert comparison.summarise(["a"], [entry, nothing]) == []


def entries(suite: str, head_dim: int, *ratios: float | None) -> list[dict]:
    return [
        {
            "suite": suite,
            "head_dim": head_dim,
            "name": f"{suite} {head_dim} {i}",
            "ratio": {} if ratio is None else {"a": ratio},
        }
        for i, ratio in enumerate(ratios)
    ]


def test_the_summary_is_by_suite_and_head_dim():
    rows = entries("grid", 64, 2.0, 0.5, None) + entries("grid", 128, 0.95) + entries("one", 64, 4)
    summary = comparison.summarise(["a", "absent"], rows)
    assert [(s["suite"], s["head_dim"]) for s in summary] == [
        ("grid", None),
        ("grid", 64),
        ("grid", 128),
        ("one", None),
    ]
    assert summary[1] == {
        "build": "a",
        "suite": "grid",
        "head_dim": 64,
        "compared": 2,
        "not_compared": 1,
        "geomean": pytest.approx(1.0),
        "worst": 0.5,
        "worst_name": "grid 64 1",
        "below_floor": 1,
    }
    assert summary[0]["compared"] == 3
    assert summary[2]["below_floor"] == 0, "the floor itself is not below it"


RATIOS = st.lists(st.floats(0.01, 100), min_size=1, max_size=30)


@given(RATIOS, st.floats(0.1, 10))
def test_geometric_mean_and_worst(ratios: list[float], faster: float):
    (of,) = comparison.summarise(["a"], entries("s", 64, *ratios))
    assert of["worst"] == min(ratios)
    assert ratios[int(of["worst_name"].split()[-1])] == min(ratios)
    assert of["worst"] <= of["geomean"] * (1 + 1e-9) and of["geomean"] <= max(ratios) * (1 + 1e-9)
    assert of["geomean"] ** len(ratios) == pytest.approx(math.prod(ratios), rel=1e-6)
    assert of["below_floor"] == len([r for r in ratios if r < comparison.FLOOR])
    (scaled,) = comparison.summarise(["a"], entries("s", 64, *(r * faster for r in ratios)))
    assert scaled["geomean"] == pytest.approx(of["geomean"] * faster)
    (inverse,) = comparison.summarise(["a"], entries("s", 64, *(1 / r for r in ratios)))
    assert inverse["geomean"] == pytest.approx(1 / of["geomean"])
