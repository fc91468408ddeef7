"""Drives CMake: one configure and build for a cell, a twin or the host library."""

import contextlib
import hashlib
import re
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fa3_matrix import _json, matrix, toolkits
from fa3_matrix._progress import progress
from fa3_matrix.build import compile_log
from fa3_matrix.build.jobs import job_count
from fa3_matrix.build.manifest import FILE_NAME, Manifest
from fa3_matrix.errors import BuildError
from fa3_matrix.matrix import Matrix

_STEP = re.compile(r"^\[(\d+)/(\d+)\] ")
_KEPT_LINES = 60
_CONFIGURED = "fa3_configured.json"
_TIMING = "fa3_timing.json"
_HOST_LIBRARY = "libfa3_host.so"


@dataclass(frozen=True)
class Timing:
    """Building from nothing: wall seconds of configure, compile and audit, and how many compilers ran at once."""

    cold_seconds: float
    jobs: int


@dataclass(frozen=True)
class Build:
    """A build: a folder with fatbins and their manifest. ``timing`` is None for a build that came from elsewhere."""

    folder: Path
    manifest: Manifest
    timing: Timing | None = None

    @classmethod
    def load(cls, folder: Path) -> "Build":
        """Read a build folder.

        Raises:
            Fa3Error: there is no readable manifest.
            BuildError: a fatbin that the manifest names is missing.
        """
        manifest = Manifest.read(folder)
        for variant in manifest.variants:
            if not (folder / variant.file).is_file():
                raise BuildError(
                    f"{folder}: {variant.file} is in the manifest and not in the folder; build the cell again"
                )
        return cls(folder, manifest, _read_timing(folder.parent / _TIMING))


def build_cell(name: str, *, jobs: int | None = None, root: Path | None = None) -> Build:
    """Build a cell or twin in ``build/cells/<name>`` and audit it; nothing is compiled again that did not change.

    Args:
        name: cell or twin of ``ci/matrix.toml``.
        jobs: compilers at once; None: from cores and free memory.
        root: source tree; None: the one of ``ci/matrix.toml``.

    Raises:
        MatrixError: no such cell.
        ToolkitError: its toolkit cannot be found or provisioned.
        BuildError: CMake, a compiler or the audit failed; the message ends with their output.
    """
    loaded = _load(root)
    cell = loaded.cell(name)
    binary = loaded.root / "build" / "cells" / cell.name
    # Asked here so that downloads show progress on the terminal, not inside CMake's captured output.
    compiler = toolkits.find(cell.toolkit.version)
    toolkits.inspection()
    started = time.perf_counter()
    cold = not (binary / "fa3" / FILE_NAME).is_file() and not any(_logs(binary))
    count = jobs or job_count(_measured_peak(loaded))
    _build(loaded.root, binary, name, inputs=[str(compiler.root)], jobs=count)
    if cold:
        seconds = time.perf_counter() - started
        _json.write_atomic(binary / _TIMING, {"cold_seconds": round(seconds, 3), "jobs": count})
    return Build.load(binary / "fa3")


def build_host(*, jobs: int | None = None, root: Path | None = None) -> Path:
    """Build the host library in ``build/host`` and return its path.

    Raises:
        ToolkitError: ``cuda.h`` or torch's headers cannot be found or provisioned.
        BuildError: CMake or the compiler failed.
    """
    loaded = _load(root)
    headers = [str(toolkits.torch_headers()), str(toolkits.inspection().cuobjdump)]
    binary = loaded.root / "build" / "host"
    _build(loaded.root, binary, "host", inputs=headers, jobs=jobs or job_count())
    library = binary / _HOST_LIBRARY
    if not library.is_file():
        raise BuildError(f"the host preset built no {library}")
    return library


def _load(root: Path | None) -> Matrix:
    return matrix.load(root / "ci" / "matrix.toml" if root else None)


def _build(root: Path, binary: Path, preset: str, *, inputs: list[str], jobs: int) -> None:
    """Configure when something that CMake cannot follow changed, then build."""
    from filelock import FileLock  # here: reading a build needs no package

    cmake = _tool("cmake")
    environment = toolkits.clean_environment()
    fingerprint = _fingerprint(root, [preset, cmake, sys.executable, *inputs])
    record = binary / _CONFIGURED
    # Beside the folder, which --fresh and people empty; two ninjas in one folder overwrite each other's objects.
    lock = FileLock(binary.with_name(f".{binary.name}.lock"))
    binary.parent.mkdir(parents=True, exist_ok=True)
    with lock, progress(f"build {preset}", unit="steps") as shown:
        configured = (binary / "build.ninja").is_file() and (binary / "CMakeCache.txt").is_file()
        if not configured or _recorded(record) != fingerprint:
            # --fresh: a changed compiler cannot replace the one in CMake's cache.
            tools = [
                f"-DPython_EXECUTABLE={sys.executable}",
                f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}",
            ]
            configure = [cmake, "--fresh", "--preset", preset, *tools]
            _run(configure, root, environment, preset)
            _json.write_atomic(record, {"fingerprint": fingerprint})
        build = [cmake, "--build", "--preset", preset, "--parallel", str(jobs)]
        _run(build, root, environment, preset, step=shown.update)


def _tool(name: str) -> str:
    """cmake beside this interpreter (an environment that is not activated), else on PATH."""
    beside = shutil.which(name, path=str(Path(sys.executable).parent))
    found = beside or shutil.which(name)
    if found is None:
        raise BuildError(f"{name} is not installed: pip install 'cmake>=4.1' ninja")
    return found


def _fingerprint(root: Path, inputs: list[str]) -> str:
    """Hash of what decides a configure and is outside CMake's own dependency tracking."""
    digest = hashlib.sha256()
    for part in [*inputs, (root / "CMakePresets.json").read_text(encoding="utf-8")]:
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()


def _recorded(record: Path) -> str | None:
    return str(_json.read(record)["fingerprint"]) if record.is_file() else None


def _read_timing(path: Path) -> Timing | None:
    if not path.is_file():
        return None
    record = _json.read(path)
    return Timing(float(record["cold_seconds"]), int(record["jobs"]))


def _logs(binary: Path) -> list[Path]:
    return list(binary.glob(f"CMakeFiles/**/*{compile_log.SUFFIX}"))


def _measured_peak(loaded: Matrix) -> int | None:
    """Largest compiler process of the builds at hand; None before the first one."""
    peaks = []
    for path in loaded.root.glob(f"build/cells/*/fa3/{FILE_NAME}"):
        # One that an older version of this package left must not keep its cell from being built again.
        with contextlib.suppress(BuildError):
            peaks.append(Manifest.read(path.parent).peak_compiler_bytes)
    return max(peaks, default=None)


def _run(
    command: list[str],
    root: Path,
    environment: dict[str, str],
    what: str,
    step: Callable[[float, float | None], None] | None = None,
) -> None:
    """Run CMake, report ninja's ``[done/total]`` steps, and fail with the end of its output."""
    tail: deque[str] = deque(maxlen=_KEPT_LINES)
    process = subprocess.Popen(
        command,
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            found = _STEP.match(line)
            if found and step:
                step(int(found[1]), int(found[2]))
            # ninja repeats the command of a failed step; the audit's says nothing that its message does not.
            if not found and "-m fa3_matrix.build audit" not in line:
                tail.append(line.rstrip())
    if process.returncode != 0:
        output = "\n".join(tail)
        raise BuildError(f"{what}: `{' '.join(command)}` failed ({process.returncode})\n{output}")
