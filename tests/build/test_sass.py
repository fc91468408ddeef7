"""The SASS hash: blind to where code lies, awake to every instruction and to the schedule."""

import subprocess
from pathlib import Path

import pytest

from fa3_matrix import toolkits
from fa3_matrix.build import sass
from fa3_matrix.errors import AuditError

_KERNEL = """
extern "C" __global__ void kernel(float* x, int n) {
  for (int i = 0; i < n; ++i) {
    if (x[i] > %(bound)s) x[i] = x[i] * 2.0f; else x[i] += 1.0f;
  }
}
"""
_BEFORE = (
    'extern "C" __global__ void before(int* x) { while (atomicAdd(x, 1) < 100) __syncthreads(); }\n'
)


@pytest.fixture
def disassemble(tmp_path: Path):
    """A function from source to its parsed SASS of `kernel`."""

    def run(source: str, toolkit: str = "13.3") -> sass.Sass:
        text, cubin = tmp_path / "kernel.cu", tmp_path / "kernel.cubin"
        text.write_text(source)
        nvcc = toolkits.find(toolkit).nvcc
        subprocess.run(
            [nvcc, "-cubin", "-gencode=arch=compute_90a,code=sm_90a", "-o", cubin, text], check=True
        )
        return sass.read(toolkits.inspection().nvdisasm, cubin, "kernel")

    return run


@pytest.mark.toolkit
@pytest.mark.parametrize("toolkit", ["12.4", "13.3"])
def test_hash_ignores_place_and_sees_change(disassemble, toolkit):
    plain = disassemble(_KERNEL % {"bound": "1.0f"}, toolkit)
    # Another function before it: other addresses in the file, other label numbers.
    moved = disassemble(_BEFORE + _KERNEL % {"bound": "1.0f"}, toolkit)
    changed = disassemble(_KERNEL % {"bound": "3.0f"}, toolkit)
    assert plain.sha256 == moved.sha256
    assert plain.sha256 != changed.sha256
    assert plain.opcodes == changed.opcodes
    assert {"LDG", "STG", "BRA", "EXIT"} <= plain.opcodes.keys()
    assert "NOP" not in plain.opcodes


def _listing(body: list[tuple[str, str, str]], start: int = 0, label: str = ".L_x_0") -> str:
    lines = [".text.kernel:"]
    for index, (text, first, second) in enumerate(body):
        if index == 1:
            lines.append(f"{label}:")
        lines.append(
            f"        /*{start + 16 * index:04x}*/                   {text} ;   /* 0x{first} */"
        )
        lines.append(f"                                                   /* 0x{second} */")
    return "\n".join(lines) + "\n"


_BODY = [
    ("MOV R1, c[0x0][0x28]", "00000a0000017a02", "000fe20000000f00"),
    ("@!P0 FADD R0, R0, 1", "3f80000000008421", "000fc80000000000"),
    ("@P1 BRA `(.L_x_0)", "ffffffe000001947", "000fea000083ffff"),
    ("NOP", "0000000000007918", "000fc00000000000"),
]


def test_hash_sees_the_schedule_and_not_addresses():
    plain = sass.parse(_listing(_BODY), "kernel")
    assert [instruction.opcode for instruction in plain.instructions] == ["MOV", "FADD", "BRA"]
    moved = [*_BODY]
    moved[2] = ("@P1 BRA `(.L_x_7)", *_BODY[2][1:])
    assert sass.parse(_listing(moved, start=0x400, label=".L_x_7"), "kernel").sha256 == plain.sha256
    longer_stall = [*_BODY]
    longer_stall[1] = (*_BODY[1][:2], "000fca0000000000")
    assert sass.parse(_listing(longer_stall), "kernel").sha256 != plain.sha256


def test_no_code_and_unknown_forms_are_errors():
    with pytest.raises(AuditError, match="no instructions of 'other'"):
        sass.parse(_listing(_BODY), "other")
    torn = _listing(_BODY).replace("/* 0x000fe20000000f00 */", "")
    with pytest.raises(AuditError, match="no second encoding word"):
        sass.parse(torn, "kernel")
