"""Properties of targets that need no toolkit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa3_matrix.matrix import ComputeCapability, Target

CAPABILITIES = st.builds(ComputeCapability, st.integers(1, 30), st.integers(0, 9))
TARGETS = st.builds(
    Target,
    st.integers(1, 30),
    st.integers(0, 9),
    st.sampled_from(["", "a", "f"]),
    st.sampled_from(["sass", "ptx"]),
)


@given(TARGETS)
def test_a_target_reads_back_as_it_is_written(target: Target) -> None:
    assert Target.parse(str(target)) == target


@given(CAPABILITIES)
def test_a_capability_reads_back_as_it_is_written(capability: ComputeCapability) -> None:
    assert ComputeCapability.parse(str(capability)) == capability


@given(TARGETS, CAPABILITIES)
def test_runs_on_is_the_capability_range(target: Target, capability: ComputeCapability) -> None:
    lowest, highest = target.capability_range()
    assert lowest <= highest
    assert target.runs_on(capability) == (lowest <= capability <= highest)


@given(TARGETS)
def test_a_target_runs_on_the_capability_it_names_and_on_none_below(target: Target) -> None:
    assert target.runs_on((target.major, target.minor))
    assert not target.runs_on((target.major, target.minor - 1))


@given(TARGETS, CAPABILITIES)
def test_a_suffix_or_sass_only_narrows(target: Target, capability: ComputeCapability) -> None:
    portable = Target(target.major, target.minor, "", "ptx")
    assert not target.runs_on(capability) or portable.runs_on(capability)


@given(TARGETS, CAPABILITIES)
def test_only_portable_ptx_crosses_a_major(target: Target, capability: ComputeCapability) -> None:
    if target.runs_on(capability) and capability.major != target.major:
        assert target.form == "ptx"
        assert target.suffix == ""


@given(TARGETS)
def test_cmake_is_asked_for_exactly_one_image(target: Target) -> None:
    number, kind = target.cmake_architecture.split("-")
    assert kind == {"sass": "real", "ptx": "virtual"}[target.form]
    assert target.code == f"sm_{number}"
    assert target.virtual == f"compute_{number}"


@pytest.mark.parametrize(
    ("target", "runs", "runs_not"),
    [
        # CUDA programming guide, compute capabilities: binary, PTX, `a` and `f` compatibility.
        ("sm_80", ["8.0", "8.6", "8.9"], ["7.5", "9.0", "10.0"]),
        ("sm_86", ["8.6", "8.9"], ["8.0", "9.0"]),
        ("sm_90", ["9.0"], ["8.9", "10.0"]),
        ("sm_90a", ["9.0"], ["8.9", "10.0"]),
        ("sm_100a", ["10.0"], ["10.3", "11.0", "12.0"]),
        ("sm_100f", ["10.0", "10.3"], ["9.0", "11.0", "12.0"]),
        ("sm_103f", ["10.3"], ["10.0", "11.0"]),
        ("sm_120f", ["12.0", "12.1"], ["10.0", "10.3"]),
        ("compute_90", ["9.0", "10.0", "12.1"], ["8.0", "8.9"]),
        ("compute_90a", ["9.0"], ["10.0"]),
        ("compute_100f", ["10.0", "10.3"], ["12.0"]),
    ],
)
def test_the_documented_cases(target: str, runs: list[str], runs_not: list[str]) -> None:
    parsed = Target.parse(target)
    assert [c for c in runs if not parsed.runs_on(ComputeCapability.parse(c))] == []
    assert [c for c in runs_not if parsed.runs_on(ComputeCapability.parse(c))] == []


@pytest.mark.parametrize("text", ["", "sm_", "sm_9", "sm90", "90a", "sm_90b", "sm_90af", "lto_90"])
def test_what_is_not_a_target_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write it like sm_80, sm_90a, sm_100f or compute_90"):
        Target.parse(text)


@pytest.mark.parametrize("text", ["", "9", "9.", "sm_90", "9.00", "100.0"])
def test_what_is_not_a_capability_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write it like '9\.0'"):
        ComputeCapability.parse(text)


def test_a_target_needs_its_own_code() -> None:
    assert Target.parse("sm_90a").needs({"sm_90", "sm_90a"})
    assert Target.parse("compute_90a").needs({"sm_90", "sm_90a"})
    assert not Target.parse("sm_90a").needs({"sm_90"})
    assert not Target.parse("sm_100f").needs({"sm_100", "sm_100a"})
