"""Hints: that each is given for its cause and for nothing else, in order, and never against the move."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa3_matrix.bench.profile_metrics import METRICS
from fa3_matrix.build.manifest import (
    AssemblyRecord,
    Manifest,
    OccupancyRecord,
    SassRecord,
    ToolkitRecord,
    VariantRecord,
)
from fa3_matrix.errors import BuildError
from fa3_matrix.gate.hints import Arm, Cause, Delta, Hint, explain

from .records import variant

NAME = "fa3_fwd_sm90_bf16_d128_m128n64_sm80"


def sass(sha256: str = "1", **opcodes: int) -> SassRecord:
    return SassRecord(sum(opcodes.values()), opcodes, sha256 * 64)


PLAIN = variant(
    NAME,
    kernel="sm80",
    block_n=64,
    stages=1,
    threads=128,
    tma_columns=0,
    dynamic_shared_bytes=65_536,
    static_shared_bytes=128,
    registers=255,
    barriers=1,
    occupancy=OccupancyRecord(2, 8, "registers"),
    sass=sass(HMMA=512, IMAD=400, MOV=88),
    compile_seconds=1.0,
    peak_compiler_bytes=100_000_000,
)


def arm(variant: VariantRecord = PLAIN, **more: Any) -> Arm:
    return Arm(**({"variant": variant, "nvcc": "13.3.73", "flags": ["-O3"]} | more))


def recompiled(*, opcodes: dict[str, int] | None = None, **more: Any) -> VariantRecord:
    """The plain variant with other SASS: `opcodes` added to it, `more` changed."""
    counts = PLAIN.sass.opcodes | (opcodes or {})
    return replace(PLAIN, sass=sass("2", **counts), **more)


def causes(hints: list[Hint]) -> list[Cause]:
    return [hint.cause for hint in hints]


def slower(head: VariantRecord, base: VariantRecord = PLAIN) -> list[Hint]:
    return explain(arm(base), arm(head), slower=True)


def only(hints: list[Hint], cause: Cause) -> Hint:
    (found,) = [hint for hint in hints if hint.cause == cause]
    return found


def test_equal_sass_points_away_from_the_kernel():
    (hint,) = slower(replace(PLAIN, registers=200, sha256="5" * 64))
    assert hint.cause == Cause.SAME_SASS
    assert hint.text == (
        "associated with nothing in the kernel, whose instructions are the same in both arms: "
        "look at the host library, the driver or noise"
    )


def test_equal_sass_of_a_split_kv_variant_leaves_its_other_kernels_open():
    splitting = replace(PLAIN, splits_keys=1)
    assert "combine" not in slower(splitting, splitting)[0].text
    (hint,) = slower(replace(splitting, sha256="5" * 64), splitting)
    assert "look at the host library, its combine and append kernels, the driver" in hint.text


def test_equal_sass_may_still_fit_less_often():
    large = replace(
        PLAIN,
        dynamic_shared_bytes=131_072,
        occupancy=OccupancyRecord(1, 4, "shared memory"),
    )
    hints = slower(large)
    assert causes(hints) == [Cause.SAME_SASS, Cause.OCCUPANCY]
    assert hints[1].text == (
        "associated with fewer CTAs on an SM: 1, base 2 (shared memory 131200 (base 65664))"
    )


@pytest.mark.parametrize(
    ("head", "cause", "text", "deltas"),
    [
        (
            recompiled(spill_store_bytes=24, spill_load_bytes=40),
            Cause.SPILLS,
            "more bytes spilled a thread: 64, base 0",
            {"spill bytes": Delta(0, 64)},
        ),
        (
            recompiled(opcodes={"LDL": 6, "STL": 2}),
            Cause.LOCAL_MEMORY,
            "more local loads and stores: LDL 6 (base 0), STL 2 (base 0)",
            {"LDL": Delta(0, 6), "STL": Delta(0, 2)},
        ),
        (
            recompiled(registers=224, occupancy=OccupancyRecord(1, 4, "registers")),
            Cause.OCCUPANCY,
            "fewer CTAs on an SM: 1, base 2 (registers a thread 224 (base 255))",
            {"CTAs an SM": Delta(2, 1), "registers a thread": Delta(255, 224)},
        ),
        (
            recompiled(opcodes={"HMMA": 500, "HGMMA": 3, "UTCHMMA": 1}),
            Cause.TENSOR_INSTRUCTIONS,
            "other tensor-core instructions: HMMA 500 (base 512), HGMMA 3 (base 0), UTCHMMA 1 (base 0)",
            {"HMMA": Delta(512, 500), "HGMMA": Delta(0, 3), "UTCHMMA": Delta(0, 1)},
        ),
        (
            recompiled(advisories=["C7510 wgmma serialised", "C0123 not of wgmma"]),
            Cause.ADVISORIES,
            "what the compiler says of head alone: C7510 wgmma serialised",
            {"C7510": Delta(0, 1)},
        ),
        (
            recompiled(opcodes={"WARPGROUP": 4, "DEPBAR": 1}),
            Cause.WAITS,
            "more waiting instructions: WARPGROUP 4 (base 0), DEPBAR 1 (base 0)",
            {"WARPGROUP": Delta(0, 4), "DEPBAR": Delta(0, 1)},
        ),
        (
            recompiled(opcodes={"IMAD": 450}, bytes=310_000),
            Cause.INSTRUCTIONS,
            "more instructions: 1050, base 1000 (+5.0%); the fatbin is 310000 bytes, base 300000",
            {"instructions": Delta(1000, 1050), "fatbin bytes": Delta(300_000, 310_000)},
        ),
        (
            recompiled(opcodes={"IMAD": 350, "MOV": 138}),
            Cause.INSTRUCTION_MIX,
            "another mix of opcodes (distance 0.050 of 1): IMAD 350 (base 400), MOV 138 (base 88)",
            {"IMAD": Delta(400, 350), "MOV": Delta(88, 138)},
        ),
        (
            recompiled(),
            Cause.SCHEDULE,
            "the same opcodes in another order, on other operands or with other stalls",
            {},
        ),
        (
            recompiled(name="fa3_fwd_sm90_bf16_d128_m16n64_splitkv"),
            Cause.OTHER_VARIANT,
            f"another variant: fa3_fwd_sm90_bf16_d128_m16n64_splitkv, base {NAME}",
            {},
        ),
    ],
)
def test_each_cause(head: VariantRecord, cause: Cause, text: str, deltas: dict[str, Delta]):
    hint = only(slower(head), cause)
    assert hint.text == f"associated with {text}"
    assert hint.deltas == deltas
    directed = {
        Cause.SPILLS,
        Cause.LOCAL_MEMORY,
        Cause.OCCUPANCY,
        Cause.ADVISORIES,
        Cause.WAITS,
        Cause.INSTRUCTIONS,
    }
    # What got worse in head is no reason for head to be faster, but in base it is.
    assert (cause in causes(explain(arm(), arm(head), slower=False))) == (cause not in directed)
    assert cause in causes(explain(arm(head), arm(), slower=False))


def counted(more: float, less: float) -> dict[str, float]:
    """Every counter: those of which more is slower, and those of which less is."""
    return {metric.key: less if metric.slower == "less" else more for metric in METRICS}


def test_worse_in_every_way_is_ranked_as_documented():
    head = recompiled(
        name="another",
        opcodes={"HMMA": 600, "STL": 2, "WARPSYNC": 3},
        spill_store_bytes=8,
        registers=255,
        occupancy=OccupancyRecord(1, 4, "registers"),
        advisories=["C7514 waits injected"],
    )
    fast = arm(sm_mhz=1980.0, watts=600.0, counters=counted(100.0, 50.0))
    slow = arm(head, sm_mhz=1755.0, watts=690.0, nvcc="12.4.131", counters=counted(110.0, 40.0))
    found = causes(explain(fast, slow, slower=True))
    expected = [cause for cause in Cause if cause not in (Cause.SAME_SASS, Cause.SCHEDULE)]
    assert found == expected


REDISTRIBUTES = {"USETMAXREG": 2}


def test_registers_without_a_step_and_a_low_occupancy_are_no_hint():
    low = OccupancyRecord(1, 12, "registers")
    for opcodes in ({}, REDISTRIBUTES):
        base = replace(PLAIN, sass=sass("1", HMMA=8, **opcodes), occupancy=low, registers=128)
        head = replace(PLAIN, sass=sass("2", HMMA=8, **opcodes), occupancy=low, registers=168)
        assert causes(slower(head, base)) == [Cause.SCHEDULE]


def test_launch_registers_of_a_kernel_that_redistributes_them_explain_nothing():
    base = replace(PLAIN, sass=sass("1", HGMMA=8, **REDISTRIBUTES), registers=128)
    head = replace(
        base,
        sass=sass("2", HGMMA=8, **REDISTRIBUTES),
        registers=168,
        occupancy=OccupancyRecord(1, 12, "registers"),
    )
    hint = only(slower(head, base), Cause.OCCUPANCY)
    assert hint.text == "associated with fewer CTAs on an SM: 1, base 2"
    assert hint.deltas == {"CTAs an SM": Delta(2, 1)}


def test_waits_that_replace_each_other_are_no_hint():
    base = recompiled(opcodes={"WARPSYNC": 4, "DEPBAR": 1})
    head = replace(base, sass=sass("3", **base.sass.opcodes | {"WARPSYNC": 1, "DEPBAR": 4}))
    assert Cause.WAITS not in causes(slower(head, base))


@pytest.mark.parametrize(
    ("base", "head", "is_slower", "expected"),
    [
        (1980.0, 1755.0, True, "associated with a lower clock: SM clock in MHz 1755 (base 1980)"),
        (1755.0, 1980.0, False, "associated with a higher clock: SM clock in MHz 1980 (base 1755)"),
        (1755.0, 1980.0, True, None),
        (1980.0, 1965.0, True, None),
        (None, 1755.0, True, None),
        (1980.0, None, True, None),
    ],
)
def test_clocks(base: float | None, head: float | None, is_slower: bool, expected: str | None):
    hints = explain(arm(sm_mhz=base), arm(sm_mhz=head), slower=is_slower)
    assert [hint.text for hint in hints[1:]] == ([expected] if expected else [])


def test_power_is_told_beside_a_clock_alone():
    hints = explain(arm(sm_mhz=1980.0, watts=600.0), arm(sm_mhz=1755.0, watts=690.0), slower=True)
    assert hints[1].deltas["power in W"] == Delta(600.0, 690.0)
    assert len(explain(arm(watts=600.0), arm(watts=690.0), slower=True)) == 1


def measured(before: dict[str, float], after: dict[str, float], **more: Any) -> list[Hint]:
    """Hints on a kernel of the same instructions, but the one that says so."""
    hints = explain(arm(counters=before), arm(counters=after), **({"slower": True} | more))
    assert hints[0].cause == Cause.SAME_SASS
    return hints[1:]


def test_counters_are_told_largest_change_first():
    base = {"warp_cycles": 1000.0, "stall_gmma": 100.0, "stall_wait": 300.0, "stall_barrier": 9.0}
    head = base | {"stall_gmma": 150.0, "stall_wait": 400.0, "stall_barrier": 20.0}
    (hint,) = measured(base, head)
    assert hint.cause == Cause.STALLS
    # A barrier's 11 of 1000 cycles are within noise, though they have more than doubled.
    assert hint.text == (
        "associated with more warp cycles waiting for a fixed latency: 400 (base 300, +33.3%), "
        "more warp cycles waiting for the order of wgmma: 150 (base 100, +50.0%)"
    )
    assert list(hint.deltas.values()) == [Delta(300, 400), Delta(100, 150)]


@pytest.mark.parametrize(
    ("key", "before", "after", "cause", "text"),
    [
        ("fp64_fma", 0, 64, Cause.FP64, "more fp64 fma of threads: 64 (base 0)"),
        (
            "local_load_bytes",
            0,
            4096,
            Cause.LOCAL_TRAFFIC,
            "more bytes of local-memory loads: 4096 (base 0)",
        ),
        (
            "achieved_occupancy",
            24.5,
            18.25,
            Cause.MEASURED_OCCUPANCY,
            "lower achieved occupancy: 18.2% (base 24.5%)",
        ),
        (
            "tensor_active",
            70.0,
            61.0,
            Cause.TENSOR_ACTIVITY,
            "lower tensor-pipe activity: 61.0% (base 70.0%)",
        ),
        (
            "dram_read_bytes",
            10**9,
            2 * 10**9,
            Cause.MEMORY_TRAFFIC,
            "more bytes of DRAM reads: 2000000000 (base 1000000000, +100.0%)",
        ),
    ],
)
def test_each_counter_points_one_way(
    key: str, before: float, after: float, cause: Cause, text: str
):
    (hint,) = measured({key: before}, {key: after})
    assert (hint.cause, hint.text) == (cause, f"associated with {text}")
    assert measured({key: before}, {key: after}, slower=False) == []
    assert measured({key: after}, {key: before}) == []
    assert causes(measured({key: after}, {key: before}, slower=False)) == [cause]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"instructions": 1000.0}, {}),
        ({}, {"instructions": 1000.0}),
        ({}, {"local_load_bytes": 4096.0}),
        ({"instructions": 1000.0}, {"instructions": 1015.0}),
        # Twice the writes, of which there are few beside the reads.
        (
            {"dram_read_bytes": 537e6, "dram_write_bytes": 2.5e6},
            {"dram_read_bytes": 537e6, "dram_write_bytes": 5e6},
        ),
        # The time is what is to be explained.
        ({"time": 1000.0, "cycles": 1000.0}, {"time": 2000.0, "cycles": 2000.0}),
    ],
)
def test_counters_of_one_arm_alone_or_within_noise_are_no_hint(
    before: dict[str, float], after: dict[str, float]
):
    assert measured(before, after) == []


def test_the_compiler_is_named_where_it_changed_the_code():
    base, head = arm(nvcc="12.4.131", flags=["-O3", "-G"]), arm(recompiled(), flags=["-O3", "-lto"])
    hint = only(explain(base, head, slower=True), Cause.COMPILER)
    assert hint.text == (
        "associated with another compiler: nvcc 13.3.73, base 12.4.131; flags that head alone "
        "has: -lto; flags that base alone has: -G"
    )
    # The same code from another compiler is the same code.
    same = explain(arm(nvcc="12.4.131"), arm(), slower=True)
    assert causes(same) == [Cause.SAME_SASS]


def test_ptx_is_said_to_be_as_assembled():
    assembled = AssemblyRecord("sm_100", "13.3.73")
    hints = explain(
        arm(assembled=assembled, sm_mhz=1980.0), arm(recompiled(), sm_mhz=1755.0), slower=True
    )
    note = "; base is PTX, here as ptxas 13.3.73 assembles it and not a driver"
    assert [hint.text.endswith(note) for hint in hints] == [True, False]


def test_an_arm_is_taken_out_of_a_manifest():
    build = Manifest(
        cell="sm90-cu133",
        arch="sm90",
        twin_of=None,
        target="sm_90a",
        form="sass",
        forward_abi=3,
        capability_range=[[9, 0], [9, 0]],
        toolkit=ToolkitRecord("13.3", "13.3.73"),
        assembled=None,
        git_revision=None,
        git_dirty=False,
        package_version=None,
        flags=["-O3"],
        build_seconds=1.0,
        peak_compiler_bytes=1,
        variants=[PLAIN],
    )
    assert Arm.of(build, NAME, sm_mhz=1980.0) == arm(sm_mhz=1980.0)
    counters = {"instructions": 5.0}
    assert Arm.of(build, NAME, counters=counters) == arm(counters=counters)
    with pytest.raises(BuildError, match="no variant 'x'"):
        Arm.of(build, "x")


records = st.builds(
    lambda counts, spill, ctas, codes, registers: replace(
        PLAIN,
        sass=SassRecord(sum(counts.values()), counts, json.dumps(counts, sort_keys=True)),
        spill_store_bytes=spill,
        occupancy=OccupancyRecord(ctas, 4 * ctas, "registers"),
        advisories=codes,
        registers=registers,
    ),
    counts=st.dictionaries(
        st.sampled_from(["HMMA", "HGMMA", "LDL", "DEPBAR", "MOV", "USETMAXREG"]),
        st.integers(1, 9),
        min_size=1,
    ),
    spill=st.integers(0, 2),
    ctas=st.integers(1, 3),
    codes=st.lists(st.sampled_from(["C7510 a", "C7514 b"]), unique=True),
    registers=st.integers(24, 255),
)


profiles = st.dictionaries(
    st.sampled_from([metric.key for metric in METRICS]), st.integers(0, 200).map(float)
)


@given(base=records, head=records, counters=st.tuples(profiles, profiles))
def test_hints_are_ranked_json_and_the_mirror_of_the_other_arm(
    base: VariantRecord,
    head: VariantRecord,
    counters: tuple[dict[str, float], dict[str, float]],
):
    first, second = arm(base, counters=counters[0]), arm(head, counters=counters[1])
    hints = explain(first, second, slower=True)
    order = [*Cause]
    ranks = [order.index(hint.cause) for hint in hints]
    assert ranks
    assert ranks == sorted(set(ranks))
    assert all(hint.text.startswith("associated with ") for hint in hints)
    json.dumps([asdict(hint) for hint in hints], allow_nan=False)
    assert all(
        delta.base != delta.head
        for hint in hints
        for delta in hint.deltas.values()
        if hint.cause != Cause.INSTRUCTIONS
    )
    # Base faster than head is head slower than base: the same causes, read from the other side.
    mirrored = explain(second, first, slower=False)
    assert causes(mirrored) == causes(hints)
    assert [
        {name: Delta(delta.head, delta.base) for name, delta in hint.deltas.items()}
        for hint in mirrored
    ] == [hint.deltas for hint in hints]
