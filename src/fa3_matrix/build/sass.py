"""Reading SASS: instruction count, opcode histogram, and a hash that ignores where the code lies.

Source is ``nvdisasm -ndf -c -hex``: text with labels for branch targets, and each instruction's 128-bit encoding;
without its data-flow analysis, which only annotates indirect branches and takes a quarter of the time.
"""

import hashlib
import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from fa3_matrix.errors import AuditError

_SECTION = re.compile(r"^\.text\.(?P<name>\S+):\s*$")
_LABEL = re.compile(r"^(?P<name>\.L_x_\d+):\s*$")
_FIRST = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?P<text>.*?)\s*;\s*/\* 0x[0-9a-f]{16} \*/\s*$")
_SECOND = re.compile(r"^\s*/\* 0x(?P<word>[0-9a-f]{16}) \*/\s*$")
_LABEL_USE = re.compile(r"\.L_x_\d+")
_PREDICATE = re.compile(r"^@!?U?P\w+\s+")

# Bits 105..125 of a Volta-or-later instruction: stall count, yield, barriers to set and to wait for, register reuse.
# They are not in the text, yet they are the schedule. No address is in them.
_CONTROL_SHIFT = 105 - 64
_CONTROL_MASK = (1 << 21) - 1


@dataclass(frozen=True)
class Instruction:
    """One instruction: its text as nvdisasm prints it, and its scheduling control bits."""

    text: str
    control: int

    @property
    def opcode(self) -> str:
        """The opcode without predicate and modifiers: ``HMMA`` of ``@P0 HMMA.16816.F32 R0, ...``."""
        return _PREDICATE.sub("", self.text).split(None, 1)[0].split(".", 1)[0]


@dataclass(frozen=True)
class Sass:
    """The instructions of one kernel, and ``lines``: what is hashed (labels among the instructions, in order)."""

    instructions: tuple[Instruction, ...]
    lines: tuple[str, ...]

    @property
    def opcodes(self) -> dict[str, int]:
        """Opcode histogram, most frequent first."""
        counted = Counter(instruction.opcode for instruction in self.instructions)
        return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))

    @property
    def sha256(self) -> str:
        """Hash of instruction text, control bits and label places; addresses and label numbers do not enter."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()


def parse(disassembly: str, kernel: str) -> Sass:
    """Read one kernel out of ``nvdisasm -c -hex`` output.

    NOPs that pad the function's end are left out: their number depends on the code's length alone.

    Raises:
        AuditError: the disassembly holds no code of that kernel, or a form this reader does not know.
    """
    instructions: list[Instruction] = []
    lines: list[str] = []
    end = (0, 0)
    names: dict[str, str] = {}
    text: str | None = None
    inside = False

    def rename(found: re.Match[str]) -> str:
        return names.setdefault(found[0], f"L{len(names)}")

    for line in disassembly.splitlines():
        if section := _SECTION.match(line):
            inside = section["name"] == kernel
        elif line.startswith("//-----"):
            inside = False
        elif not inside:
            continue
        elif label := _LABEL.match(line):
            lines.append(_LABEL_USE.sub(rename, label["name"]) + ":")
        elif text is not None:
            second = _SECOND.match(line)
            if second is None:
                raise AuditError(
                    f"nvdisasm: no second encoding word after {text!r} of {kernel}: {line!r}"
                )
            control = int(second["word"], 16) >> _CONTROL_SHIFT & _CONTROL_MASK
            normal = _LABEL_USE.sub(rename, " ".join(text.split()))
            instructions.append(Instruction(normal, control))
            lines.append(f"{normal} {control:06x}")
            if normal != "NOP":
                end = (len(instructions), len(lines))
            text = None
        elif first := _FIRST.match(line):
            text = first["text"]
    if end == (0, 0):
        raise AuditError(f"nvdisasm printed no instructions of {kernel!r}")
    return Sass(tuple(instructions[: end[0]]), tuple(lines[: end[1]]))


def read(nvdisasm: Path, cubin: Path, kernel: str) -> Sass:
    """Disassemble ``cubin`` and read ``kernel`` from it.

    Raises:
        AuditError: nvdisasm failed, or the kernel is not there.
    """
    done = subprocess.run(
        [nvdisasm, "-ndf", "-c", "-hex", cubin],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise AuditError(f"{nvdisasm.name} failed on {cubin.name}: {done.stderr.strip()}")
    return parse(done.stdout, kernel)
