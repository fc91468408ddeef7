"""The gate without a GPU: what each rule lets pass, what waivers cover, and that nothing unchecked is a pass."""

import json
from collections.abc import Collection
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fa3_matrix import _json
from fa3_matrix.build.manifest import (
    Manifest,
    OccupancyRecord,
    SassRecord,
    ToolkitRecord,
    VariantRecord,
)
from fa3_matrix.gate.static import EXIT_FAIL, EXIT_PASS, Pair, Rule, StaticResult, check
from fa3_matrix.matrix import load
from fa3_matrix.matrix.gate import GateWaiver

from .records import NAME, variant

CELL = "sm90-cu133"
TODAY = date(2026, 11, 29)
LIMITS = load().static


def manifest(*variants: VariantRecord, cell: str = CELL, **more: Any) -> Manifest:
    plain = Manifest(
        cell=cell,
        arch="sm90",
        twin_of=None,
        target="sm_90a",
        form="sass",
        forward_abi=3,
        capability_range=[[9, 0], [9, 0]],
        toolkit=ToolkitRecord("13.3", "13.3.73"),
        assembled=None,
        git_revision="c0ffee" * 6 + "1234",
        git_dirty=False,
        package_version=None,
        flags=["-O3"],
        build_seconds=40.0,
        peak_compiler_bytes=120_000_000,
        variants=list(variants) or [variant()],
    )
    return replace(plain, **more)


def gate(
    base: Manifest | None, head: Manifest | None, *waivers: GateWaiver, **more: Any
) -> StaticResult:
    """The gate on one cell of which wheels were made, both on one machine."""
    known = {"base_wheel_bytes": 3_000_000, "head_wheel_bytes": 3_100_000, "same_machine": True}
    return check([Pair(CELL, base, head, **(known | more))], LIMITS, waivers, today=TODAY)


def waiver(rule: str, expires: date = TODAY, **more: str) -> GateWaiver:
    stated = {"cell": CELL, "variant": "*", "reason": "known and accepted"}
    return GateWaiver(**(stated | more), rule=rule, expires=expires)


def rules(result: StaticResult) -> list[str]:
    return [finding.rule for finding in result.findings]


def test_a_build_passes_against_itself():
    result = gate(manifest(), manifest())
    assert (result.verdict, result.exit_code) == ("pass", EXIT_PASS)
    assert result.findings == []
    (cell,) = result.cells
    assert (cell.compared, cell.same_sass, cell.not_checked) == (1, 1, {})


SPILLING = variant(spill_store_bytes=8, spill_load_bytes=12)
ADVISED = variant(advisories=["C7510 wgmma serialised", "C7510 again", "C7999 rare"])


@pytest.mark.parametrize(
    ("base", "head", "rule", "values", "said"),
    [
        (variant(), SPILLING, Rule.NEW_SPILL, (0, 20, 0), "spills 20 bytes a thread, base 0: "),
        (
            replace(SPILLING, spill_load_bytes=4),
            SPILLING,
            Rule.NEW_SPILL,
            (12, 20, 12),
            "fewer min_blocks",
        ),
        (
            variant(advisories=["C7999 rare"]),
            ADVISED,
            Rule.NEW_ADVISORY,
            (None, "C7510 wgmma serialised", None),
            "the compiler says C7510 of ",
        ),
        (
            variant(),
            variant(occupancy=OccupancyRecord(1, 12, "shared memory")),
            Rule.LOST_OCCUPANCY,
            (2, 1, 2),
            "what limits it, shared memory",
        ),
        (
            variant(),
            variant(sass=SassRecord(4401, {}, "2" * 64)),
            Rule.SASS_GROWTH,
            (4000, 4401, 4400),
            "grew from 4000 to 4401 instructions, 10% are allowed",
        ),
    ],
)
def test_a_variant_that_got_worse_fails(
    base: VariantRecord, head: VariantRecord, rule: Rule, values: tuple[Any, ...], said: str
):
    result = gate(manifest(base), manifest(head))
    assert (result.verdict, result.exit_code) == ("fail", EXIT_FAIL)
    (finding,) = result.findings
    assert (finding.rule, finding.cell, finding.variant) == (rule, CELL, NAME)
    assert (finding.base, finding.head, finding.limit) == values
    assert said in finding.message
    assert finding.message.endswith("or state a [[gate.waivers]] row with a reason")
    # The same change the other way is an improvement.
    assert rule not in rules(gate(manifest(head), manifest(base)))


def test_other_advisories_and_other_numbers_are_told_apart():
    harmless = variant(advisories=["C0123 a remark that is not of wgmma"])
    assert rules(gate(manifest(), manifest(harmless))) == []
    other = variant(advisories=["C7514 another"])
    assert rules(gate(manifest(ADVISED), manifest(other))) == ["new-advisory"]
    reworded = variant(advisories=["C7510 the same in other words"])
    assert rules(gate(manifest(ADVISED), manifest(reworded))) == []


@pytest.mark.parametrize(
    ("head", "pair", "rule", "said"),
    [
        ({}, {"head_wheel_bytes": 5_000_001}, Rule.WHEEL_SIZE, "5.00 MB are allowed: "),
        ({"build_seconds": 240.5}, {"same_machine": False}, Rule.BUILD_TIME, "240 s are allowed"),
        ({"build_seconds": 50.1}, {}, Rule.BUILD_TIME, "base for 40.0 s, 25% more are allowed"),
        (
            {
                "peak_compiler_bytes": 2_100_000_000,
                "variants": [variant(), variant("a_large", peak_compiler_bytes=2_100_000_000)],
            },
            {},
            Rule.BUILD_MEMORY,
            "took 2.10 GB, 2.00 GB are allowed: give a_large a smaller tile",
        ),
    ],
)
def test_a_cell_over_a_budget_fails(
    head: dict[str, Any], pair: dict[str, Any], rule: Rule, said: str
):
    for base in (manifest(), None) if "base" not in said else (manifest(),):
        (finding,) = gate(base, manifest(**head), **pair).findings
        assert (finding.rule, finding.variant) == (rule, "")
        assert said in finding.message
        assert finding.head > finding.limit


def test_at_the_limits_everything_passes():
    head = manifest(build_seconds=50.0, peak_compiler_bytes=2_000_000_000)
    assert rules(gate(manifest(), head, head_wheel_bytes=5_000_000)) == []
    assert rules(gate(None, manifest(build_seconds=240.0))) == []


def test_a_lost_variant_fails_and_a_new_one_is_named():
    result = gate(manifest(variant("old"), variant()), manifest(variant(), variant("new")))
    assert [(finding.rule, finding.variant) for finding in result.findings] == [
        ("lost-variant", "old")
    ]
    assert result.cells[0].new_variants == ["new"]
    assert result.cells[0].compared == 1


def test_a_new_variant_is_not_held_to_what_it_never_had():
    result = gate(manifest(), manifest(variant(), replace(ADVISED, name="new")))
    assert (rules(result), result.cells[0].new_variants) == ([], ["new"])


def test_a_cell_without_a_base_is_no_pair_and_says_what_was_not_checked():
    result = gate(None, manifest(SPILLING))
    assert (result.verdict, result.exit_code) == ("no-pair", EXIT_PASS)
    (cell,) = result.cells
    assert (cell.verdict, cell.compared, cell.base_revision) == ("no-pair", 0, None)
    assert set(cell.not_checked) == set(Rule) - {Rule.WHEEL_SIZE, Rule.BUILD_MEMORY}
    assert cell.not_checked[Rule.NEW_SPILL] == "base has no build of this cell"


def test_a_cell_that_head_lost_fails_and_waived_it_is_no_pass():
    result = gate(manifest(variant(), variant("other")), None)
    (finding,) = result.findings
    assert (finding.rule, finding.variant, finding.base, finding.head) == ("lost-variant", "", 2, 0)
    assert result.exit_code == EXIT_FAIL
    waived = gate(manifest(), None, waiver("lost-variant"))
    assert (waived.verdict, waived.exit_code) == ("no-pair", EXIT_PASS)


def test_one_failed_cell_fails_the_run_and_each_cell_has_its_own_verdict():
    other = manifest(cell="sm80-cu133")
    pairs = [
        Pair("sm80-cu133", other, other),
        Pair(CELL, manifest(), manifest(SPILLING)),
        Pair("sm100-cu124", None, manifest(cell="sm100-cu124")),
    ]
    result = check(pairs, LIMITS, [], today=TODAY)
    assert [cell.verdict for cell in result.cells] == ["pass", "fail", "no-pair"]
    assert result.verdict == "fail"
    assert check([pairs[0], pairs[2]], LIMITS, [], today=TODAY).verdict == "no-pair"


def test_without_a_wheel_or_the_same_machine_it_says_so():
    slow = manifest(build_seconds=100.0)
    result = gate(manifest(), slow, head_wheel_bytes=None, same_machine=False)
    assert result.verdict == "pass"
    assert result.cells[0].not_checked == {
        "build-time": "held to the budget alone: base and head were not built on one machine",
        "wheel-size": "no wheel of this cell was made",
    }


def test_wrong_pairs_are_refused():
    with pytest.raises(ValueError, match="neither base nor head"):
        Pair(CELL, None, None)
    with pytest.raises(ValueError, match="a build of sm80-cu133 was given for sm90-cu133"):
        Pair(CELL, manifest(), manifest(cell="sm80-cu133"))
    pair = Pair(CELL, manifest(), manifest())
    for pairs in ([], [pair, pair]):
        with pytest.raises(ValueError, match="each cell once, and at least one"):
            check(pairs, LIMITS, [], today=TODAY)


@pytest.mark.parametrize("name", ["*", NAME])
def test_a_waiver_covers_its_rule_until_the_end_of_its_last_day(name: str):
    covering = waiver("new-spill", variant=name)
    result = gate(manifest(), manifest(SPILLING), covering)
    assert (result.verdict, result.exit_code) == ("pass", EXIT_PASS)
    assert [finding.waiver for finding in result.findings] == [covering]
    assert result.waiver_remarks == []


@pytest.mark.parametrize(
    "other",
    [
        waiver("sass-growth"),
        waiver("new-spill", variant="another"),
        waiver("new-spill", cell="sm80-cu133"),
    ],
)
def test_a_waiver_covers_nothing_else(other: GateWaiver):
    result = gate(manifest(), manifest(SPILLING), other)
    assert result.exit_code == EXIT_FAIL
    assert [finding.waiver for finding in result.findings] == [None]


def test_an_expired_waiver_covers_nothing_and_is_reported():
    expired = waiver("new-spill", TODAY - timedelta(days=1))
    result = gate(manifest(), manifest(SPILLING), expired)
    assert result.exit_code == EXIT_FAIL
    (remark,) = result.waiver_remarks
    assert (remark.waiver, remark.state) == (expired, "expired")
    assert "expired after 2026-11-28" in remark.message


def test_of_two_waivers_the_one_that_lasts_is_named_and_neither_is_unused():
    short, long = waiver("new-spill"), waiver("new-spill", TODAY + timedelta(days=9))
    result = gate(manifest(), manifest(SPILLING), short, long)
    assert [finding.waiver for finding in result.findings] == [long]
    assert result.waiver_remarks == []


def test_an_unused_waiver_is_reported_where_its_rule_was_checked():
    unused = waiver("new-spill", cell="*")
    assert [remark.state for remark in gate(manifest(), manifest(), unused).waiver_remarks] == [
        "unused"
    ]
    # It may be needed where nothing was compared, and in cells that are not of this run.
    assert gate(None, manifest(), unused).waiver_remarks == []
    elsewhere = replace(unused, cell="sm80-cu133")
    assert gate(manifest(), manifest(), elsewhere).waiver_remarks == []
    sized = waiver("wheel-size")
    assert gate(manifest(), manifest(), sized, head_wheel_bytes=None).waiver_remarks == []


def test_a_waiver_of_an_unknown_rule_is_reported():
    (remark,) = gate(manifest(), manifest(), waiver("new-spills")).waiver_remarks
    assert remark.state == "unknown rule"
    assert "the rules are new-spill, new-advisory, " in remark.message


def test_the_document_is_json_that_later_stages_read(tmp_path: Path):
    manifest(SPILLING, git_dirty=True).write(tmp_path)
    head = Manifest.read(tmp_path)
    result = gate(manifest(), head, waiver("new-spill"), waiver("sass-growth"))
    _json.write_atomic(tmp_path / "static.json", result.as_json())
    read = _json.read(tmp_path / "static.json")
    assert read == json.loads(json.dumps(result.as_json()))
    assert (read["schema"], read["kind"], read["verdict"], read["exit_code"]) == (
        1,
        "static-gate",
        "pass",
        0,
    )
    assert read["today"] == "2026-11-29"
    assert read["limits"]["sass_growth"] == 0.1
    assert read["cells"][0]["head_revision"] == "c0ffee" * 6 + "1234-dirty"
    (finding,) = read["findings"]
    assert finding["rule"] == "new-spill"
    assert finding["waiver"] == {
        "cell": CELL,
        "variant": "*",
        "rule": "new-spill",
        "reason": "known and accepted",
        "expires": "2026-11-29",
    }
    assert [remark["state"] for remark in read["waiver_remarks"]] == ["unused"]


counts = st.integers(0, 10_000)


@given(base=counts, head=counts, percent=st.integers(0, 99))
@example(base=100, head=115, percent=15)  # 100 * 1.15 is a little less than 115
def test_growth_is_allowed_up_to_its_limit_exactly(base: int, head: int, percent: int):
    limits = replace(LIMITS, sass_growth=percent / 100)
    a, b = (manifest(variant(sass=SassRecord(n, {}, "1" * 64))) for n in (base, head))
    result = check([Pair(CELL, a, b)], limits, [], today=TODAY)
    assert bool(result.findings) == (head > base * (1 + Fraction(percent, 100)))


@st.composite
def variants(draw: st.DrawFn) -> list[VariantRecord]:
    names = draw(st.lists(st.sampled_from("abc"), min_size=1, unique=True))
    return [
        variant(
            name,
            spill_store_bytes=draw(st.integers(0, 2)),
            occupancy=OccupancyRecord(draw(st.integers(1, 2)), 8, "registers"),
            advisories=draw(st.lists(st.sampled_from(["C7510 a", "C7514 b"]), unique=True)),
        )
        for name in names
    ]


@given(
    base=variants(),
    head=variants(),
    waived=st.sets(st.tuples(st.sampled_from(Rule), st.sampled_from("abc*"))),
)
def test_it_fails_exactly_for_what_no_waiver_covers(
    base: list[VariantRecord], head: list[VariantRecord], waived: Collection[tuple[Rule, str]]
):
    waivers = [waiver(rule, variant=name) for rule, name in waived]
    result = gate(manifest(*base), manifest(*head), *waivers)
    plain = gate(manifest(*base), manifest(*head))
    # Waivers add and hide nothing.
    assert [replace(finding, waiver=None) for finding in result.findings] == plain.findings
    left = [f for f in plain.findings if not waived & {(f.rule, f.variant), (f.rule, "*")}]
    assert result.exit_code == (EXIT_FAIL if left else EXIT_PASS)
    used = {finding.waiver for finding in result.findings}
    unused = {remark.waiver for remark in result.waiver_remarks}
    assert not used & unused
    # Head against itself finds nothing, whatever it is.
    assert gate(manifest(*head), manifest(*head)).findings == []
