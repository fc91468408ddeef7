"""Compiler launcher: runs one compiler command and keeps what it cost and what it said.

CMake calls it as ``python compile_log.py -- nvcc ... -o OBJECT``. Beside the object it writes ``OBJECT.log.json``
with the command, wall seconds, start time, the largest resident size of any process below it, and the compiler's whole
stderr (``ptxas -v`` speaks there). Run by path, so that no import of the package is paid for: standard library only.
"""

import importlib.util
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SCHEMA = 1
SUFFIX = ".log.json"

# `ptxas -v` prints five lines a kernel even when all is well; they are kept in the log and not on the screen.
# Advisories such as (C7515) carry the same prefix and stay visible.
_STATISTICS = ("ptxas info    : ", "    ", "ptxas info\t: ")


def log_path(output: Path) -> Path:
    """Where the log of the compile that wrote ``output`` lies."""
    return output.with_name(output.name + SUFFIX)


def output_of(command: list[str]) -> Path | None:
    """The file that a compiler command writes: the argument after its last ``-o``; None when it has none."""
    for index in range(len(command) - 2, -1, -1):
        if command[index] == "-o":
            return Path(command[index + 1])
    return None


def visible(stderr: str) -> str:
    """The lines of ``stderr`` that a person must see: everything but the statistics of ``ptxas -v``."""
    lines = stderr.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(_STATISTICS) or "(C" in line)


def _environment() -> dict[str, str]:
    """This environment without what would change a build unseen; plain ``cmake --build`` and pip pass theirs on."""
    path = Path(__file__).resolve().parents[1] / "toolkits" / "_environment.py"
    spec = importlib.util.spec_from_file_location("fa3_environment", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    cleaned: dict[str, str] = module.clean_environment()
    return cleaned


def _write(path: Path, record: dict[str, Any]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def run(command: list[str]) -> int:
    """Run ``command``, write its log beside its output, and return its exit status."""
    output = output_of(command)
    if output is not None:
        log_path(output).unlink(missing_ok=True)
    started = time.time()
    clock = time.perf_counter()
    done = subprocess.run(
        command,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=_environment(),
        check=False,
    )
    seconds = time.perf_counter() - clock
    sys.stderr.write(visible(done.stderr) if done.returncode == 0 else done.stderr)
    if done.returncode == 0 and output is not None:
        # ru_maxrss of waited-for children is in KiB on Linux: the largest process, not their sum.
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        _write(
            log_path(output),
            {
                "schema": SCHEMA,
                "command": command,
                "started": started,
                "seconds": seconds,
                "peak_bytes": peak,
                "stderr": done.stderr,
            },
        )
    return done.returncode


def main(arguments: list[str]) -> int:
    """Entry point: ``compile_log.py -- command...``."""
    if len(arguments) < 2 or arguments[0] != "--":
        sys.stderr.write("usage: compile_log.py -- compiler arguments...\n")
        return 2
    return run(arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
