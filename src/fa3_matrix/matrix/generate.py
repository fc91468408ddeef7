"""Files derived from the matrix."""

import json
from pathlib import Path
from typing import Any

from fa3_matrix.matrix.model import Cell, Matrix, Twin


def presets(matrix: Matrix) -> str:
    """CMakePresets.json: one configure and build preset for each cell and twin, and one for the host library."""
    base = {
        "name": "base",
        "hidden": True,
        "generator": "Ninja",
        "binaryDir": "${sourceDir}/build/cells/${presetName}",
        "cacheVariables": {"CMAKE_BUILD_TYPE": "Release"},
    }
    cells: list[Cell | Twin] = [*matrix.cells, *matrix.twins]
    configure: list[dict[str, Any]] = [base]
    for cell in cells:
        configure.append(
            {
                "name": cell.name,
                "displayName": f"{cell.arch.name} with CUDA {cell.toolkit.version}: {cell.target}",
                "inherits": "base",
                "cacheVariables": {"FA3_CELL": cell.name},
            }
        )
    configure.append(
        {
            "name": "host",
            "displayName": "Host library and its tests",
            "inherits": "base",
            "binaryDir": "${sourceDir}/build/host",
            "cacheVariables": {"FA3_HOST": "ON"},
        }
    )
    names = [p["name"] for p in configure if not p.get("hidden")]
    data = {
        "version": 6,
        "cmakeMinimumRequired": {"major": 4, "minor": 1, "patch": 0},
        "configurePresets": configure,
        "buildPresets": [{"name": n, "configurePreset": n} for n in names],
    }
    return json.dumps(data, indent=2) + "\n"


def outputs(matrix: Matrix) -> dict[Path, str]:
    """Every generated file, relative to the source tree, and its text."""
    return {Path("CMakePresets.json"): presets(matrix)}
