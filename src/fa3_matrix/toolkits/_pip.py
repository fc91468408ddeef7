"""Download one pinned wheel with whichever pip this machine has, from the index it is set to."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from shutil import which

from fa3_matrix.errors import ToolkitError

from ._pins import Package
from ._process import last_lines, run_watched


def download(package: Package, folder: Path, watch: Callable[[int], None]) -> None:
    """Download `package` into `folder`; `watch` is told the number of bytes there so far.

    Raises:
        ToolkitError: pip is missing, or could not download exactly the pinned file.
    """
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{package} --hash=sha256:{package.sha256}\n")
    command, environment = pip()
    arguments = [
        *command,
        "download",
        "--disable-pip-version-check",
        "--no-input",
        "--no-deps",
        "--require-hashes",
        "--only-binary=:all:",
        "--progress-bar=off",
        *package.pip_options,
        f"--dest={folder}",
        f"--requirement={requirements}",
    ]
    # pip writes to a temporary folder and moves at the end: put that where its growth is seen.
    environment = {**environment, "TMPDIR": str(folder)}
    status, output = run_watched(arguments, environment, folder, watch)
    if status == 0:
        return
    if "DO NOT MATCH THE HASHES" in output:
        raise ToolkitError(
            f"hash mismatch: the index offers {package} with another content than the pinned "
            f"sha256 {package.sha256}; nothing was installed. Either the index pip is configured "
            "with was tampered with, or it rebuilt the file: do not go on with it"
        )
    reached = "Retrying" not in output and "ConnectionError" not in output
    raise ToolkitError(
        f"could not download {package} with pip"
        + ("" if reached else " (is this machine offline?)")
        + f"; nothing was installed. pip said:\n{last_lines(output)}\n"
        "Check the network and the index that pip is configured with (`pip config list`)"
    )


def pip() -> tuple[list[str], dict[str, str]]:
    """The command line of a pip that runs, and its environment.

    pip's isolated build environments and uv's environments have no `pip` module: look further.

    Raises:
        ToolkitError: There is none.
    """
    command, isolated = _working_pip()
    return command, _environment(isolated)


def _environment(isolated: bool) -> dict[str, str]:
    # An isolated build environment hides the interpreter's own packages through PYTHONPATH.
    return {k: v for k, v in os.environ.items() if not (isolated and k.startswith("PYTHON"))}


@cache
def _working_pip() -> tuple[list[str], bool]:
    for command, isolated in _candidates():
        try:
            found = subprocess.run(
                [*command, "--version"],
                env=_environment(isolated),
                capture_output=True,
                check=False,
            )
        except OSError:
            continue
        if found.returncode == 0:
            return command, isolated
    raise ToolkitError(
        f"no pip found: neither {sys.executable}, nor its base interpreter, nor PATH, nor the "
        "`ensurepip` module has one; install pip"
    )


def _candidates() -> Iterator[tuple[list[str], bool]]:
    """Command lines that may be pip, and whether to run them without the PYTHON* variables."""
    yield [sys.executable, "-m", "pip"], False
    base = getattr(sys, "_base_executable", None) or sys.executable
    for interpreter in dict.fromkeys((sys.executable, base)):
        yield [interpreter, "-m", "pip"], True
    for name in ("pip3", "pip"):
        if (path := which(name)) is not None:
            yield [path], True
    try:
        import ensurepip
    except ImportError:
        return
    folders = (Path(ensurepip.__file__).parent / "_bundled", Path("/usr/share/python-wheels"))
    for folder in folders:
        for wheel in sorted(folder.glob("pip-*.whl"), reverse=True):
            # A wheel is a zip archive, and Python runs a package inside one.
            yield [sys.executable, f"{wheel}/pip"], True
