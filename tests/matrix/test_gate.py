"""``[gate]`` of the matrix: what the project states, what comes first, and errors that name the line."""

from dataclasses import MISSING, fields
from datetime import date
from pathlib import Path

import pytest

from fa3_matrix.errors import MatrixError
from fa3_matrix.matrix import GateLimits, GateWaiver, Matrix, StaticLimits, parse

GATE = """
[gate]
margin = 0.004
budget = 0.03
alpha = 0.05
control_alpha = 0.02
screen_trials = 6
confirm_trials = 9
pairs = 8
most_dropped = 0.2
margins = []

[gate.static]
sass_growth = 0.3
wheel_bytes = 7
build_seconds = 11
build_growth = 0.4
compiler_bytes = 13

[[gate.waivers]]
cell = "sm90-cu133"
rule = "new-spill"
reason = "known"
expires = 2030-01-31
"""
MARGINS = "margins = []\n"


@pytest.fixture
def bare(matrix_text: str) -> str:
    """The project's matrix without its gate."""
    return matrix_text[: matrix_text.index("\n[gate]\n") + 1]


def test_what_is_stated_is_read(bare: str) -> None:
    matrix = parse(bare + GATE)
    assert matrix.gate == GateLimits(
        margin=0.004,
        budget=0.03,
        alpha=0.05,
        control_alpha=0.02,
        screen_trials=6,
        confirm_trials=9,
        pairs=8,
        most_dropped=0.2,
    )
    assert matrix.static == StaticLimits(
        sass_growth=0.3, wheel_bytes=7, build_seconds=11, build_growth=0.4, compiler_bytes=13
    )


def test_only_the_file_states_a_limit() -> None:
    defaults = [
        f.name for c in (GateLimits, StaticLimits) for f in fields(c) if f.default != MISSING
    ]
    assert defaults == ["margins"]


def test_a_file_without_limits_is_an_error(bare: str) -> None:
    with pytest.raises(MatrixError, match="missing key 'gate'"):
        parse(bare)


def test_a_problems_margin_comes_before_its_suites(bare: str) -> None:
    rows = (
        'margins = [\n  { suite = "decode", margin = 0.01, reason = "x" },\n'
        '  { problem = "p", margin = 0.05, reason = "x" },\n]\n'
    )
    gate = parse(bare + GATE.replace(MARGINS, rows)).gate
    assert gate.margin_of("decode", "p") == 0.05
    assert gate.margin_of("decode", "q") == 0.01
    assert gate.margin_of("varlen", "q") == 0.004
    # A budget below the margin would leave no room to pass.
    assert (gate.budget_of("decode", "p"), gate.budget_of("decode", "q")) == (0.05, 0.03)


def test_a_waiver_covers_its_rule_in_its_cell_until_it_expires(bare: str) -> None:
    (waiver,) = parse(bare + GATE).gate_waivers
    assert waiver == GateWaiver("sm90-cu133", "*", "new-spill", "known", date(2030, 1, 31))
    assert waiver.covers("sm90-cu133", "any", "new-spill")
    assert not waiver.covers("sm90-cu124", "any", "new-spill")
    assert not waiver.covers("sm90-cu133", "any", "sass-growth")
    assert not waiver.expired(date(2030, 1, 31))
    assert waiver.expired(date(2030, 2, 1))


def test_a_waiver_of_one_variant_leaves_the_others(matrix: Matrix, bare: str) -> None:
    one, other = (variant.name for variant in matrix.all_variants[:2])
    text = bare + GATE.replace('"sm90-cu133"', '"*"') + f'variant = "{one}"\n'
    (waiver,) = parse(text).gate_waivers
    assert waiver.covers("sm80-cu124", one, "new-spill")
    assert not waiver.covers("sm80-cu124", other, "new-spill")


# What is replaced in the gate above, what the error says, the start of the line it names.
BREAKS = {
    "unknown key": ("\npairs = 8\n", "\npairs = 8\nbeta = 1\n", "unknown key 'beta'", "beta"),
    "limit left out": ("\npairs = 8\n", "\n", "missing key 'pairs'", "[gate]"),
    "static limit left out": (
        "build_seconds = 11\n",
        "",
        "missing key 'build_seconds'",
        "[gate.static]",
    ),
    "share above 1": ("\nalpha = 0.05\n", "\nalpha = 5\n", "alpha = 5: must be a share", "alpha"),
    "share as text": ("\nalpha = 0.05\n", "\nalpha = '5%'\n", "must be a share", "alpha"),
    "no chance": ("\nalpha = 0.05\n", "\nalpha = 0\n", "nothing could ever be rejected", "alpha"),
    "budget below margin": (
        "\nbudget = 0.03\n",
        "\nbudget = 0.001\n",
        "budget = 0.001 is below margin = 0.004",
        "budget",
    ),
    "one trial": (
        "\nscreen_trials = 6\n",
        "\nscreen_trials = 1\n",
        "must be at least 2",
        "screen_trials",
    ),
    "margin of an unknown suite": (
        MARGINS,
        'margins = [\n  { suite = "x", margin = 0.1, reason = "r" },\n]\n',
        "suite = 'x': must be one of smoke",
        '  { suite = "x"',
    ),
    "margin of nothing": (
        MARGINS,
        'margins = [{ margin = 0.1, reason = "r" }]\n',
        "give exactly one of the two",
        "margins",
    ),
    "margin without its reason": (
        MARGINS,
        'margins = [{ problem = "p", margin = 0.1 }]\n',
        "missing key 'reason'",
        "margins",
    ),
    "two margins of one problem": (
        MARGINS,
        "margins = [{ problem = 'p', margin = 0.1, reason = 'r' }, "
        "{ problem = 'p', margin = 0.2, reason = 'r' }]\n",
        "margins has two rows for problem 'p'",
        "margins",
    ),
    "unknown static limit": (
        "wheel_bytes = 7",
        "wheel_bytes = 7\nptx_growth = 0.10",
        "unknown key 'ptx_growth'",
        "ptx_growth",
    ),
    "no wheel": ("wheel_bytes = 7", "wheel_bytes = 0", "must be at least 1", "wheel_bytes"),
    "waiver of an unknown cell": (
        'cell = "sm90-cu133"',
        'cell = "sm70"',
        "cell = 'sm70': must be one of sm80-cu124",
        "cell",
    ),
    "waiver of an unknown variant": (
        'rule = "new-spill"',
        'rule = "new-spill"\nvariant = "v"',
        "variant = 'v': must be one of fa3_fwd_",
        "variant",
    ),
    "waiver for ever": ("expires = 2030-01-31\n", "", "missing key 'expires'", "[[gate.waivers]]"),
    "waiver until a moment": (
        "expires = 2030-01-31",
        "expires = 2030-01-31T00:00:00",
        "must be a date such as 2030-01-31",
        "expires",
    ),
}


@pytest.mark.parametrize("case", BREAKS)
def test_a_broken_gate_names_the_line(bare: str, case: str) -> None:
    old, new, message, line = BREAKS[case]
    assert GATE.count(old) == 1
    text = bare + GATE.replace(old, new)
    with pytest.raises(MatrixError) as caught:
        parse(text, Path("matrix.toml"))
    said = str(caught.value)
    assert message in said
    assert text.split("\n")[int(said.split(":")[1]) - 1].startswith(line)
