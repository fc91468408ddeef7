"""Fatbins of the kernels that test the PTX layer: build/tests/ptx/<toolkit>/<part>.fatbin.

A machine without a toolkit takes what another has built, as long as the sources are still the same.
"""

import hashlib
import re
import subprocess
from pathlib import Path

from fa3_matrix.toolkits import ToolkitRoot, clean_environment, host_compiler

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOOLKITS = ("12.4", "13.3")

# Parts and the compute capabilities that their images serve; Ampere's instructions are tested on Hopper too.
TARGETS = {"ampere": ("80", "90a"), "hopper": ("90a",), "wgmma": ("90a",)}

_INCLUDE_FOLDERS = (HERE, ROOT / "cpp")
_FLAGS = ["-std=c++17", "-O3", "-lineinfo", "--no-compress", "-Xptxas=-v", "-fatbin"]


def fatbin(version: str, part: str) -> Path:
    """Where the fatbin of `part` by toolkit `version` lies; its log and its digest lie beside it."""
    return ROOT / "build" / "tests" / "ptx" / version / f"{part}.fatbin"


def log(version: str, part: str) -> Path:
    """What nvcc and ptxas said."""
    return fatbin(version, part).with_suffix(".log")


def is_current(version: str, part: str) -> bool:
    """Whether the fatbin is of the sources as they are now."""
    try:
        stated = _digest_file(version, part).read_text(encoding="ascii").split()
        content = hashlib.sha256(fatbin(version, part).read_bytes()).hexdigest()
    except OSError:
        return False
    return stated == [_source_digest(part), content]


def build(toolkit: ToolkitRoot, part: str) -> None:
    """Compile `part` unless its fatbin is current."""
    if is_current(toolkit.version, part):
        return
    output = fatbin(toolkit.version, part)
    output.parent.mkdir(parents=True, exist_ok=True)
    digest = _source_digest(part)
    command = [
        toolkit.nvcc,
        *_options(part),
        *("-ccbin", host_compiler(toolkit)),
        *(f"-I{folder}" for folder in _INCLUDE_FOLDERS),
        *(_source(part), "-o", output),
    ]
    done = subprocess.run(
        command, env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{toolkit.version}, {part}:\n{done.stdout}{done.stderr}"
    log(toolkit.version, part).write_text(done.stdout + done.stderr, encoding="utf-8")
    # Last: an interrupted build is not current.
    content = hashlib.sha256(output.read_bytes()).hexdigest()
    _digest_file(toolkit.version, part).write_text(f"{digest} {content}\n", encoding="ascii")


def _source(part: str) -> Path:
    return HERE / f"ptx_{part}.cu"


def _options(part: str) -> list[str]:
    images = [f"-gencode=arch=compute_{t},code=sm_{t}" for t in TARGETS[part]]
    return [*_FLAGS, *images]


def _digest_file(version: str, part: str) -> Path:
    return fatbin(version, part).with_suffix(".sha256")


def _source_digest(part: str) -> str:
    """Of the options, the source and every header of ours that it includes."""
    digest = hashlib.sha256(" ".join(_options(part)).encode())
    found = [_source(part)]
    for path in found:
        text = path.read_bytes()
        digest.update(text)
        for name in re.findall(r'^#include "(.+)"', text.decode(), re.MULTILINE):
            candidates = [folder / name for folder in _INCLUDE_FOLDERS]
            header = next(path for path in candidates if path.exists())
            if header not in found:
                found.append(header)
    return digest.hexdigest()
