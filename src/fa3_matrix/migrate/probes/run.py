"""Runs compiled probes, each in a process of its own, and gathers what they observe."""

import ctypes
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fa3_matrix import _json
from fa3_matrix.errors import Fa3Error
from fa3_matrix.migrate.probes.catalogue import MANIFEST, PROBES, Probe
from fa3_matrix.migrate.probes.observations import Built, Observations, Probed, Run, Status

# Each takes a few seconds, most of them to load the driver.
SECONDS = 60.0


def run(
    out: Path, *, seconds: float = SECONDS, say: Callable[[str], None] = lambda _line: None
) -> Observations:
    """Run all probes of a folder that `build` filled.

    Args:
        seconds: after which a probe is ended.

    Raises:
        Fa3Error: the folder holds no probes, or not all of them.
    """
    out = out.resolve()
    built = [Built(**one) for one in _json.read(out / MANIFEST)["toolkits"]]
    for missing in _missing(out, built):
        raise Fa3Error(
            f"{missing}: no such program; `python -m fa3_matrix.migrate.probes build {out}` makes it"
        )
    probed = []
    for probe in PROBES:
        runs = []
        for own in built:
            say(f"{probe.name}, CUDA {own.version}")
            other = next((one for one in built if one is not own), own)
            runs.append(_run(out, probe, own, other, seconds))
        probed.append(Probed(probe.name, probe.question, probe.documented, probe.url, tuple(runs)))
    gpu, driver_cuda = _device()
    return Observations(gpu, _driver(), driver_cuda, tuple(built), tuple(probed))


def _missing(out: Path, built: list[Built]) -> list[Path]:
    wanted = [out / one.version / probe.name for one in built for probe in PROBES]
    return [path for path in wanted if not path.is_file()]


def _run(out: Path, probe: Probe, own: Built, other: Built, seconds: float) -> Run:
    folder = out / own.version
    before = os.environ.get("LD_LIBRARY_PATH")
    path = f"{folder}:{before}" if before else str(folder)
    try:
        done = subprocess.run(
            [str(folder / probe.name), str(out / other.version / other.library)],
            cwd=folder,
            env={**os.environ, "LD_LIBRARY_PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Run(own.version, Status.FAILED, reason=f"it took longer than {seconds:g} s")
    except OSError as error:
        return Run(own.version, Status.FAILED, reason=f"it could not be started: {error.strerror}")
    said = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode != 0:
        why = _ended(done.returncode)
        last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return Run(own.version, Status.FAILED, reason=f"{why}: {last}" if last else why)
    return _record(own.version, said)


def _ended(status: int) -> str:
    if status < 0:
        return f"it was ended by {signal.Signals(-status).name}"
    return f"it exited with {status}"


def _record(version: str, said: str) -> Run:
    try:
        record: dict[str, Any] = json.loads(said)
        if "reason" in record:
            return Run(version, Status.NOT_RUN, reason=str(record["reason"]))
        return Run(version, Status.OBSERVED, dict(record["observed"]), dict(record["measured"]))
    except (ValueError, TypeError, KeyError):
        return Run(version, Status.FAILED, reason=f"it printed no record: {said[:200]!r}")


def _driver() -> str | None:
    """Release of the kernel module; None: there is none."""
    try:
        return Path("/sys/module/nvidia/version").read_text(encoding="ascii").strip()
    except OSError:
        return None


_NAME_LENGTH = 256


def _device() -> tuple[str | None, str | None]:
    """The first GPU's name, and the CUDA version that the driver supports."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, None
    number = ctypes.c_int()
    known = driver.cuDriverGetVersion(ctypes.byref(number)) == 0
    version = f"{number.value // 1000}.{number.value % 1000 // 10}" if known else None
    name = ctypes.create_string_buffer(_NAME_LENGTH)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetName(name, _NAME_LENGTH, 0) != 0:
        return None, version
    return name.value.decode("utf-8", "replace"), version
