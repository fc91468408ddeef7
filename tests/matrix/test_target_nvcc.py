"""Targets against the real compilers of both toolkits, provisioned if need be."""

import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa3_matrix import toolkits
from fa3_matrix.matrix import Matrix, Target, load

MATRIX = load(Path(__file__).parents[2] / "ci" / "matrix.toml")
VERSIONS = [toolkit.version for toolkit in MATRIX.toolkits]

pytestmark = pytest.mark.toolkit


@cache
def accepts(version: str, gencode: str) -> bool:
    """Whether the toolkit's nvcc takes this -gencode (a dry run: nothing is compiled)."""
    nvcc = toolkits.find(version).nvcc
    command = [nvcc, "--dryrun", "--fatbin", "-x", "cu", f"-gencode={gencode}", "/dev/null"]
    done = subprocess.run(
        command, env=toolkits.clean_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 or "nvcc fatal" in done.stderr, done.stderr
    return done.returncode == 0


def alone(target: Target) -> str:
    """The -gencode that makes this target and nothing else."""
    return f"arch={target.virtual},code={target}"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_stated_targets_are_those_of_nvcc(version: str) -> None:
    stated = MATRIX.toolkit(version).targets
    probe = toolkits.find(version).probe()
    assert stated == {name for name in probe.targets if name.startswith("sm_")}
    # --list-gpu-code leaves the suffixed ones out.
    assert {name for name in stated if name[-1].isdigit()} == probe.codes


@pytest.mark.parametrize("version", VERSIONS)
def test_nvcc_takes_every_stated_target(version: str) -> None:
    targets = [Target.parse(name) for name in MATRIX.toolkit(version).targets]
    assert [str(t) for t in targets if not accepts(version, alone(t))] == []


@pytest.mark.parametrize("version", VERSIONS)
@given(
    target=st.builds(
        Target,
        st.integers(5, 13),
        st.integers(0, 9),
        st.sampled_from(["", "a", "f"]),
        st.sampled_from(["sass", "ptx"]),
    )
)
@settings(max_examples=60, deadline=None)  # each example may start nvcc
def test_needs_agrees_with_nvcc(version: str, target: Target) -> None:
    expected = accepts(version, alone(target))
    assert target.needs(MATRIX.toolkit(version)) == expected
    assert target.needs(toolkits.find(version).probe()) == expected


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_nvcc_makes_sass_of_ptx_exactly_where_that_ptx_runs(
    version: str, data: st.DataObject
) -> None:
    # The compiler's own notion of which GPU runs what. Of `a` its dry run is lax, so not asked.
    known = [Target.parse(name) for name in sorted(MATRIX.toolkit(version).targets)]
    source = data.draw(st.sampled_from([t for t in known if t.suffix != "a"]))
    gpu = data.draw(st.sampled_from([t for t in known if not t.suffix]))
    ptx = replace(source, form="ptx")
    assert accepts(version, f"arch={ptx},code={gpu}") == ptx.runs_on((gpu.major, gpu.minor))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_stated_ptx_isa_is_the_one_that_nvcc_writes(version: str) -> None:
    stated = MATRIX.toolkit(version).ptx_isa
    assert stated == ".".join(map(str, toolkits.find(version).probe().ptx_isa))


def test_nvcc_takes_the_gencode_of_every_cell_and_twin(matrix: Matrix) -> None:
    assert [c.name for c in matrix.buildable if not accepts(c.toolkit.version, c.gencode)] == []
