"""Both toolkits keep the order that the Hopper kernel's softmax states, and no branch is left of what states it.

Nothing obliges them to: see cpp/ptx/schedule.cuh. A toolkit that does not would show as a slower kernel alone.
"""

import re
import subprocess
from pathlib import Path

import pytest

from fa3_matrix import toolkits
from fa3_matrix.build import sass
from fa3_matrix.errors import ToolkitError
from fa3_matrix.matrix import Variant, load

from ..kernel_source import expand
from . import ptx_fatbins

pytestmark = pytest.mark.toolkit

SOURCES = ptx_fatbins.ROOT / "cpp"


@pytest.mark.parametrize("version", ptx_fatbins.TOOLKITS)
def test_rounding_stays_well_behind_the_exponentials(version: str, tmp_path: Path) -> None:
    try:
        nvcc, nvdisasm = toolkits.find(version).nvcc, toolkits.inspection().nvdisasm
    except ToolkitError as error:
        pytest.skip(str(error))
    variant = _of_128_rows()
    template = (SOURCES / variant.kernel / "forward.cu.in").read_text(encoding="utf-8")
    source, cubin = tmp_path / f"{variant.name}.cu", tmp_path / f"{variant.name}.cubin"
    source.write_text(expand(template, variant), encoding="utf-8")
    options = ["-cubin", "-std=c++17", "-gencode=arch=compute_90a,code=sm_90a", f"-I{SOURCES}"]
    subprocess.run([nvcc, *options, "-o", cubin, source], check=True)
    code = sass.read(nvdisasm, cubin, variant.name)
    distances = _from_exponential_to_rounding(code)
    assert len(distances) > 100
    # The last dozen of 64 can't be. Left to themselves, both compilers round most after two or three.
    assert sum(distance >= 8 for distance in distances) > 0.7 * len(distances)
    assert code.opcodes["EXIT"] < 12


def _of_128_rows() -> Variant:
    (variant,) = (
        variant
        for variant in load().variants("sm90")
        if variant.name.startswith("fa3_fwd_sm90_bf16_d128_m128") and variant.kernel == "sm90"
    )
    return variant


def _from_exponential_to_rounding(code: sass.Sass) -> list[int]:
    """For each exponential that is rounded, how many others come in between, as the code lies."""
    distances = []
    exponentials: dict[str, int] = {}  # by the register that holds it, its number
    count = 0
    for instruction in code.instructions:
        registers = re.findall(r"\bR\d+\b", instruction.text)
        if not registers:
            continue
        written, *read = registers
        if instruction.opcode == "F2FP":
            distances += [count - 1 - exponentials[r] for r in read if r in exponentials]
        exponentials.pop(written, None)
        if instruction.text.startswith("MUFU.EX2"):
            exponentials[written] = count
            count += 1
    return distances
