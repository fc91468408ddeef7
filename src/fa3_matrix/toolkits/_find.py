"""Find a toolkit: environment variable, system path, else provision it into the cache."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fa3_matrix.errors import ToolkitError

from ._install import damaged, install, installed
from ._pins import Recipe, recipes
from ._probe import Probe, probe, release

# Reads the fatbins of every cell: older readers call an sm_90a image sm_90.
INSPECTION_VERSION = "13.3"
TORCH_HEADERS = "torch-headers-2.10"

Source = Literal["environment", "system", "provisioned"]


@dataclass(frozen=True)
class ToolkitRoot:
    """One CUDA toolkit on this machine."""

    version: str
    root: Path
    source: Source

    @property
    def nvcc(self) -> Path:
        """The compiler driver."""
        return self.root / "bin" / "nvcc"

    @property
    def ptxas(self) -> Path:
        """The assembler."""
        return self.root / "bin" / "ptxas"

    @property
    def include(self) -> Path:
        """Folder of `cuda.h` and `cuda_runtime.h`."""
        return self.root / "include"

    def probe(self) -> Probe:
        """What this toolkit can do; asked once in a process."""
        return probe(self.root)

    def damaged(self) -> list[str]:
        """Files that changed since they were provisioned; empty for a toolkit that is not ours."""
        return damaged(self.root) if self.source == "provisioned" else []


@dataclass(frozen=True)
class InspectionTools:
    """The tools that read fatbins and assemble PTX, all of one toolkit."""

    cuobjdump: Path
    nvdisasm: Path
    ptxas: Path


def root_variable(version: str) -> str:
    """Name of the environment variable that chooses a toolkit, e.g. ``FA3_CUDA_12_4_ROOT``."""
    return f"FA3_CUDA_{version.replace('.', '_')}_ROOT"


def system_root(version: str) -> Path:
    """Where NVIDIA's installers put a toolkit."""
    return Path(f"/usr/local/cuda-{version}")


def provisionable() -> list[str]:
    """Versions that can be provisioned, oldest first."""
    found = [n.removeprefix("cuda-") for n in recipes() if n.startswith("cuda-")]
    return sorted(found, key=lambda version: [int(part) for part in version.split(".")])


def find(version: str, *, provision: bool = True) -> ToolkitRoot:
    """Find CUDA `version` (``"12.4"``), provisioning it into the cache if this machine has none.

    Order: ``FA3_CUDA_X_Y_ROOT``, ``/usr/local/cuda-X.Y``, the cache.

    Args:
        version: Major and minor version.
        provision: False never downloads.

    Raises:
        ValueError: `version` is not of the form ``X.Y``.
        ToolkitError: The chosen root is no such toolkit, or there is none and it cannot be
            provisioned.
    """
    if re.fullmatch(r"\d+\.\d+", version) is None:
        raise ValueError(f"toolkit version {version!r}: expected major.minor, such as '12.4'")
    variable = root_variable(version)
    if chosen := os.environ.get(variable):
        root = Path(chosen).expanduser().absolute()
        return _checked(ToolkitRoot(version, root, "environment"), f"{variable}={chosen}")
    system = system_root(version)
    # A folder without nvcc is a run-time-only installation, not a mistake.
    if (system / "bin" / "nvcc").exists():
        return _checked(ToolkitRoot(version, system, "system"), str(system))
    recipe = recipes().get(f"cuda-{version}")
    if recipe is None:
        raise ToolkitError(
            f"CUDA {version} is not on this machine and cannot be provisioned (only "
            f"{' and '.join(provisionable())} can). {_ways(version)}"
        )
    return ToolkitRoot(version, _provisioned(recipe, version, provision), "provisioned")


def inspection() -> InspectionTools:
    """cuobjdump, nvdisasm and ptxas of CUDA 13.3, whichever toolkit built what they read.

    Raises:
        ToolkitError: CUDA 13.3 cannot be had, or its root lacks one of them.
    """
    toolkit = find(INSPECTION_VERSION)
    tools = {name: toolkit.root / "bin" / name for name in ("cuobjdump", "nvdisasm", "ptxas")}
    missing = [name for name, path in tools.items() if not os.access(path, os.X_OK)]
    if missing:
        raise ToolkitError(
            f"{toolkit.root} ({toolkit.source}) has no {' and no '.join(missing)}; install the "
            f"complete toolkit there, or set {root_variable(INSPECTION_VERSION)} to a complete one"
        )
    return InspectionTools(**tools)


def torch_headers() -> Path:
    """Include folder with LibTorch's stable-ABI headers of torch 2.10, under 1 MB, no torch needed.

    ``FA3_TORCH_INCLUDE`` chooses another one.

    Raises:
        ToolkitError: The chosen folder holds no such headers, or they cannot be provisioned.
    """
    if chosen := os.environ.get("FA3_TORCH_INCLUDE"):
        folder = Path(chosen).expanduser().absolute()
        if not (folder / "torch/csrc/stable/library.h").is_file():
            raise ToolkitError(
                f"FA3_TORCH_INCLUDE={chosen} holds no torch/csrc/stable/library.h; name the "
                "`include` folder of torch 2.10 or newer, or unset it to have headers provisioned"
            )
        return folder
    return install(recipes()[TORCH_HEADERS]) / "include"


def _provisioned(recipe: Recipe, version: str, provision: bool) -> Path:
    if (tree := installed(recipe)) is not None:
        return tree
    if not provision:
        raise ToolkitError(f"CUDA {version} is not on this machine. {_ways(version)}")
    try:
        return install(recipe)
    except ToolkitError as error:
        raise ToolkitError(
            f"CUDA {version} is not on this machine and could not be provisioned: {error}. "
            f"{_ways(version)}"
        ) from error


def _ways(version: str) -> str:
    ways = [
        f"set {root_variable(version)} to an installed CUDA {version} toolkit",
        f"install CUDA {version} at {system_root(version)}",
    ]
    recipe = recipes().get(f"cuda-{version}")
    if recipe is not None:
        debian = [package for package in recipe.packages if package.kind == "debian"]
        way = "let `fa3-matrix toolkits` provision it, which needs pip and its package index"
        if debian:
            way += (
                ", `apt-get` and `dpkg-deb`, and a Debian mirror with "
                f"{debian[0].suite}/{debian[0].component}: this machine's own if its apt is "
                "Debian's, else set FA3_DEBIAN_MIRROR to the URL of one"
            )
        ways.append(way)
    numbered = "; ".join(f"({number}) {way}" for number, way in enumerate(ways, 1))
    return f"Ways to have it: {numbered}."


def _checked(toolkit: ToolkitRoot, named: str) -> ToolkitRoot:
    needed = ("bin/nvcc", "bin/ptxas", "include/cuda.h", "include/cuda_runtime.h")
    missing = [name for name in needed if not (toolkit.root / name).exists()]
    if missing:
        raise ToolkitError(
            f"{named} is not a CUDA toolkit: it has no {', no '.join(missing)}; name the folder "
            "that holds bin/ and include/"
        )
    found = release(toolkit.root)
    if not found.startswith(f"{toolkit.version}."):
        raise ToolkitError(
            f"{named} is CUDA {found}, and {toolkit.version} is asked for; choose another folder"
        )
    return toolkit
