"""Choose the host compiler that nvcc drives, within the ceiling of the toolkit's headers."""

import os
import re
import subprocess
from shutil import which

from fa3_matrix.errors import ToolkitError

from ._environment import clean_environment
from ._find import ToolkitRoot


def host_compiler(toolkit: ToolkitRoot) -> str:
    """Path of a C++ compiler that this toolkit accepts.

    ``CUDAHOSTCXX`` if set; else `g++`, versioned ones (`g++-13` ...), then `clang++` likewise.

    Raises:
        ToolkitError: There is none; the message names the newest versions that would do.
    """
    probe = toolkit.probe()
    ceilings = {"g++": probe.gcc_max, "clang++": probe.clang_max}
    chosen = os.environ.get("CUDAHOSTCXX")
    names = [chosen] if chosen else _names(ceilings)
    refused = []
    for name in names:
        path = which(name)
        if path is None:
            continue
        family, major = identify(path)
        if major <= ceilings[family]:
            return path
        refused.append(f"{path} is {family} {major}")
    met = "; ".join(refused) or f"none of {', '.join(names[:2])} ... is on PATH"
    raise ToolkitError(
        f"CUDA {toolkit.version}'s nvcc accepts g++ up to {probe.gcc_max} and clang++ up to "
        f"{probe.clang_max}, and {met}. Install g++-{probe.gcc_max} or set CUDAHOSTCXX to a "
        "compiler that it accepts"
    )


def identify(compiler: str) -> tuple[str, int]:
    """Family (``"g++"`` or ``"clang++"``) and major version, from the compiler's own macros."""
    done = subprocess.run(
        [compiler, "-dM", "-E", "-x", "c++", os.devnull],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    macros = dict(re.findall(r"^#define (__GNUC__|__clang_major__) (\d+)$", done.stdout, re.M))
    if "__clang_major__" in macros:
        return "clang++", int(macros["__clang_major__"])
    if "__GNUC__" in macros:
        return "g++", int(macros["__GNUC__"])
    raise ToolkitError(f"{compiler} is neither GCC nor Clang; it said: {done.stderr.strip()!r}")


def _names(ceilings: dict[str, int]) -> list[str]:
    # Five majors back: older ones lack the C++20 that the host library is written in.
    return [
        name
        for family, newest in ceilings.items()
        for name in (family, *(f"{family}-{major}" for major in range(newest, newest - 5, -1)))
    ]
