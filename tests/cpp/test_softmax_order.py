"""Both toolkits keep the order that the Hopper kernel's softmax states, and no branch is left of what states it.

Nothing obliges them to: see cpp/ptx/schedule.cuh. A toolkit that does not would show as a slower kernel alone.
"""

import re
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from fa3_matrix import toolkits
from fa3_matrix.build import sass
from fa3_matrix.errors import ToolkitError
from fa3_matrix.matrix import load

from . import ptx_fatbins

pytestmark = pytest.mark.toolkit

SOURCES = ptx_fatbins.ROOT / "cpp"
KERNEL = "ordered"


@pytest.mark.parametrize("version", ptx_fatbins.TOOLKITS)
def test_rounding_stays_well_behind_the_exponentials(version: str, tmp_path: Path) -> None:
    try:
        nvcc, nvdisasm = toolkits.find(version).nvcc, toolkits.inspection().nvdisasm
    except ToolkitError as error:
        pytest.skip(str(error))
    source, cubin = tmp_path / f"{KERNEL}.cu", tmp_path / f"{KERNEL}.cubin"
    source.write_text(_kernel_of_128_rows(), encoding="utf-8")
    options = ["-cubin", "-std=c++17", "-gencode=arch=compute_90a,code=sm_90a", f"-I{SOURCES}"]
    subprocess.run([nvcc, *options, "-o", cubin, source], check=True)
    code = sass.read(nvdisasm, cubin, KERNEL)
    distances = _from_exponential_to_rounding(code)
    assert len(distances) > 100
    # The last dozen of 64 can't be. Left to themselves, both compilers round most after two or three.
    assert sum(distance >= 8 for distance in distances) > 0.7 * len(distances)
    assert code.opcodes["EXIT"] < 12


def _kernel_of_128_rows() -> str:
    """Of head_dim 128, as the build would write it."""
    (row,) = (
        row
        for row in load().variants("sm90")
        if row.name.startswith("fa3_fwd_sm90_bf16_d128_m128") and row.kernel == "sm90"
    )
    options = {name.upper(): str(value).lower() for name, value in asdict(row.options).items()}
    values = {
        "VARIANT": KERNEL,
        "ELEMENT": "Bf16",
        "HEAD_DIM": row.head_dim,
        "BLOCK_M": row.block_m,
        "BLOCK_N": row.block_n,
        "STAGES": row.stages,
        **options,
    }
    template = (SOURCES / "sm90" / "forward.cu.in").read_text(encoding="utf-8")
    return re.sub(r"@FA3_(\w+)@", lambda found: str(values[found[1]]), template)


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
