"""Run a downloader while watching its folder grow."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile


def run_watched(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    watch: Callable[[int], None],
) -> tuple[int, str]:
    """Run `command` in `folder`; return its exit status and its output (both streams)."""
    with TemporaryFile() as log:
        with subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        ) as process:
            try:
                while process.poll() is None:
                    watch(_size(folder))
                    time.sleep(0.1)
            except BaseException:
                process.terminate()
                raise
        log.seek(0)
        return process.returncode, log.read().decode(errors="replace")


def last_lines(output: str, count: int = 4) -> str:
    """The last lines of a tool's output, indented, without blank ones."""
    lines = [line for line in output.splitlines() if line.strip()]
    return "\n".join(f"    {line}" for line in lines[-count:])


def _size(folder: Path) -> int:
    total = 0
    # os.walk passes over a folder that the downloader removes meanwhile; Path.rglob raises.
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += (Path(parent) / name).stat().st_size
    return total
