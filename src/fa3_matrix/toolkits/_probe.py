"""What a toolkit root can do, asked of its own tools instead of assumed from its version."""

import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from fa3_matrix.errors import ToolkitError

from ._environment import clean_environment


@dataclass(frozen=True)
class Probe:
    """A toolkit's abilities.

    Attributes:
        release: Full version of nvcc, e.g. ``"12.4.131"``.
        codes: What ``nvcc --list-gpu-code`` lists, e.g. ``"sm_90"``: no suffixed targets.
        targets: Every real and virtual target that ``nvcc --help`` lists, suffixed ones included.
        ptx_isa: Version of the PTX that nvcc writes, e.g. ``(8, 4)``; an older driver refuses it.
        gcc_max: Newest major version of GCC that the headers accept.
        clang_max: Newest major version of Clang that the headers accept.
        nvcc_options: Long options of nvcc, e.g. ``"--compress-mode"``.
        ptxas_options: Long options of ptxas.
    """

    release: str
    codes: frozenset[str]
    targets: frozenset[str]
    ptx_isa: tuple[int, int]
    gcc_max: int
    clang_max: int
    nvcc_options: frozenset[str]
    ptxas_options: frozenset[str]

    @property
    def compress_mode(self) -> bool:
        """Whether nvcc knows ``--compress-mode`` (12.4 does not)."""
        return "--compress-mode" in self.nvcc_options


@cache
def probe(root: Path) -> Probe:
    """Probe the toolkit at `root` (about half a second, once in a process).

    Raises:
        ToolkitError: One of its tools does not run or its headers do not state the ceilings.
    """
    nvcc = root / "bin" / "nvcc"
    usage = run(nvcc, "--help")
    return Probe(
        release=release(root),
        codes=frozenset(run(nvcc, "--list-gpu-code").split()),
        targets=frozenset(re.findall(r"'((?:sm|compute)_\d+[af]?)'", usage)),
        ptx_isa=_ptx_isa(nvcc),
        gcc_max=_ceiling(root, r"#if __GNUC__ > (\d+)"),
        # The header states the first version that is refused.
        clang_max=_ceiling(root, r"\(__clang_major__ >= (\d+)\)") - 1,
        nvcc_options=_options(usage),
        ptxas_options=_options(run(root / "bin" / "ptxas", "--help")),
    )


@cache
def release(root: Path) -> str:
    """Full version of the toolkit's nvcc, e.g. ``"12.4.131"``."""
    text = run(root / "bin" / "nvcc", "--version")
    found = re.search(r"\bV(\d+\.\d+\.\d+)", text)
    if found is None:
        raise ToolkitError(f"{root}/bin/nvcc --version names no version; it said: {text!r}")
    return found.group(1)


def run(tool: Path, *arguments: str) -> str:
    """Run one of a toolkit's tools and return its standard output."""
    return complete(tool, *arguments).stdout


def complete(tool: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one of a toolkit's tools to its end. Raises ToolkitError when it does not run, or fails."""
    try:
        done = subprocess.run(
            [tool, *arguments],
            env=clean_environment(),
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except OSError as error:
        raise ToolkitError(f"{tool} does not run: {error.strerror}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise ToolkitError(f"`{tool} {' '.join(arguments)}` failed: {said}")
    return done


def _ptx_isa(nvcc: Path) -> tuple[int, int]:
    with TemporaryDirectory() as folder:
        source = Path(folder) / "empty.cu"
        source.write_text('extern "C" __global__ void empty() {}\n')
        ptx = Path(folder) / "empty.ptx"
        run(nvcc, "--ptx", "-arch=compute_80", "-o", str(ptx), str(source))
        found = re.search(r"^\.version (\d+)\.(\d+)", ptx.read_text(), re.MULTILINE)
    if found is None:
        raise ToolkitError(f"{nvcc} wrote PTX without a .version line")
    return int(found.group(1)), int(found.group(2))


def _ceiling(root: Path, pattern: str) -> int:
    header = root / "include" / "crt" / "host_config.h"
    try:
        found = re.search(pattern, header.read_text())
    except OSError as error:
        raise ToolkitError(f"{header}: {error.strerror}; the toolkit is incomplete") from error
    if found is None:
        raise ToolkitError(f"{header} states no host compiler ceiling that matches {pattern!r}")
    return int(found.group(1))


def _options(usage: str) -> frozenset[str]:
    return frozenset(re.findall(r"^ *(--[a-zA-Z][\w-]*)", usage, re.MULTILINE))
