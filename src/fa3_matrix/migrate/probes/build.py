"""Compiles the probes with both toolkits into a folder that can be carried to a machine with a GPU.

``OUT/manifest.json`` names the toolkits; ``OUT/12.4`` and ``OUT/13.3`` hold the programs and the libcudart.so that
each needs. Nothing in them says where they were built: the library's folder is given when they run.
"""

import dataclasses
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from fa3_matrix import _json, toolkits
from fa3_matrix.errors import ToolkitError
from fa3_matrix.migrate.probes.catalogue import MANIFEST, PROBES, PROGRAMS, Probe
from fa3_matrix.migrate.probes.observations import Built
from fa3_matrix.toolkits import ToolkitRoot


def build(
    out: Path, versions: Sequence[str], *, say: Callable[[str], None] = lambda _line: None
) -> None:
    """Compile all probes with each toolkit; what was in its folder is replaced.

    Args:
        versions: ("12.4", "13.3"): the older one first.

    Raises:
        ToolkitError: a toolkit cannot be had, has no shared libcudart, or does not compile a probe.
    """
    built = []
    for version in versions:
        toolkit = toolkits.find(version)
        folder = out / version
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        library = _library(toolkit)
        shutil.copyfile(library, folder / library.name)
        with TemporaryDirectory(prefix="fa3-probes-") as scratch:
            kernels = Path(scratch) / "kernels.o"
            say(f"CUDA {version}: kernels")
            _compile(_nvcc(toolkit, kernels), toolkit)
            for probe in PROBES:
                say(f"CUDA {version}: {probe.name}")
                _compile(_host(toolkit, probe, kernels, library, folder / probe.name), toolkit)
        built.append(Built(version, toolkit.probe().release, library.name))
    _json.write_atomic(out / MANIFEST, {"toolkits": [dataclasses.asdict(one) for one in built]})


def _library(toolkit: ToolkitRoot) -> Path:
    name = f"libcudart.so.{toolkit.version.partition('.')[0]}"
    for folder in ("lib64", "lib", "targets/x86_64-linux/lib"):
        if (toolkit.root / folder / name).is_file():
            return toolkit.root / folder / name
    raise ToolkitError(
        f"{toolkit.root} has no {name}; name a complete toolkit by {_variable(toolkit)}"
    )


def _variable(toolkit: ToolkitRoot) -> str:
    return f"FA3_CUDA_{toolkit.version.replace('.', '_')}_ROOT"


_LANGUAGE = ("-std=c++17", "-O2")


def _nvcc(toolkit: ToolkitRoot, to: Path) -> list[str]:
    """The kernels, for every GPU that the toolkit knows."""
    host = f"-ccbin={toolkits.host_compiler(toolkit)}"
    source = str(PROGRAMS / "kernels.cu")
    return [
        *(str(toolkit.nvcc), host, *_LANGUAGE, "-arch=all-major", "-Wno-deprecated-gpu-targets"),
        *("-c", source, "-o", str(to)),
    ]


def _host(toolkit: ToolkitRoot, probe: Probe, kernels: Path, library: Path, to: Path) -> list[str]:
    return [
        *(toolkits.host_compiler(toolkit), *_LANGUAGE, f"-isystem{toolkit.include}"),
        *(str(probe.source), str(kernels), str(library), "-ldl", "-s", "-o", str(to)),
    ]


def _compile(command: Sequence[str], toolkit: ToolkitRoot) -> None:
    done = subprocess.run(
        command,
        env=toolkits.clean_environment() | {"LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr).splitlines()
        first = next((line for line in said if "error" in line), "no error message")
        raise ToolkitError(f"CUDA {toolkit.version} does not compile a probe: {first}")
