"""PEP 517 backend: scikit-build-core, plus what one cell's wheel needs.

Without a cell (`pip install -e .`, an sdist) this is scikit-build-core with CMake off: nothing native
is built. With `-C cmake.define.FA3_CELL=sm90-cu133` it turns CMake on, asks for the build stage's
requirements and labels the version `+cu133.sm90`. No torch is installed into the build environment:
the stable-ABI headers come from the toolkits stage (about 1 MB, pinned).
"""

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scikit_build_core import build as _skbuild
from scikit_build_core.build import build_sdist, get_requires_for_build_sdist

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "dynamic_metadata",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

ROOT = Path(__file__).resolve().parents[2]
VERSION = "0.1.0"
_CELL_KEY = "cmake.define.FA3_CELL"

Settings = dict[str, list[str] | str]

# The local version label of the wheel in progress; `dynamic_metadata` reads it in the same process.
_label = ""


def _with_cell(settings: Settings | None) -> Settings | None:
    """Returns scikit-build-core's settings for the cell asked for, or `settings` when there is none."""
    global _label
    cell = (settings or {}).get(_CELL_KEY)
    if not cell:
        _label = ""
        return settings
    # The checkout's own package, which needs nothing but what get_requires_for_build_wheel names.
    sys.path.insert(0, str(ROOT / "src"))
    from fa3_matrix import matrix

    found = matrix.load(ROOT / "ci" / "matrix.toml").cell(str(cell))
    if not isinstance(found, matrix.Cell):
        raise SystemExit(f"{cell} is a twin: twins are for tests and are never shipped as a wheel")
    _label = f"{found.toolkit.label}.{found.arch.name}"
    defaults: Settings = {
        "wheel.cmake": "true",
        "cmake.define.FA3_HOST": "ON",
        # A folder for each cell: a CMake build tree holds one CUDA compiler.
        "build-dir": f"build/wheel/{cell}",
    }
    return defaults | (settings or {})


def dynamic_metadata(_settings: Mapping[str, Any], _project: Mapping[str, Any]) -> dict[str, str]:
    """The version, as scikit-build-core's dynamic-metadata provider."""
    return {"version": f"{VERSION}+{_label}" if _label else VERSION}


def get_requires_for_build_wheel(config_settings: Settings | None = None) -> list[str]:
    if not (config_settings or {}).get(_CELL_KEY):
        return _skbuild.get_requires_for_build_wheel(config_settings)
    with open(ROOT / "pyproject.toml", "rb") as file:
        extras: dict[str, list[str]] = tomllib.load(file)["project"]["optional-dependencies"]
    return [*_skbuild.get_requires_for_build_wheel(config_settings), *extras["build"]]


def build_wheel(
    wheel_directory: str,
    config_settings: Settings | None = None,
    metadata_directory: str | None = None,
) -> str:
    return _skbuild.build_wheel(wheel_directory, _with_cell(config_settings), metadata_directory)


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: Settings | None = None
) -> str:
    return _skbuild.prepare_metadata_for_build_wheel(
        metadata_directory, _with_cell(config_settings)
    )


def _without_cell(settings: Settings | None) -> Settings | None:
    if (settings or {}).get(_CELL_KEY):
        raise SystemExit(
            "an editable install holds no device code: build the cell with `nox -s build-<cell>` "
            "and point FA3_BUILD at build/cells/<cell>/fa3"
        )
    return settings


def get_requires_for_build_editable(config_settings: Settings | None = None) -> list[str]:
    return _skbuild.get_requires_for_build_editable(_without_cell(config_settings))


def prepare_metadata_for_build_editable(
    metadata_directory: str, config_settings: Settings | None = None
) -> str:
    return _skbuild.prepare_metadata_for_build_editable(
        metadata_directory, _without_cell(config_settings)
    )


def build_editable(
    wheel_directory: str,
    config_settings: Settings | None = None,
    metadata_directory: str | None = None,
) -> str:
    return _skbuild.build_editable(
        wheel_directory, _without_cell(config_settings), metadata_directory
    )
