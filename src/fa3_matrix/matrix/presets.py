"""CMakePresets.json, from the matrix."""

import json
from typing import Any

from fa3_matrix.matrix.model import Cell, Matrix, Twin


def presets(matrix: Matrix) -> str:
    """A configure and a build preset for each cell, each twin and the host library."""
    base = {
        "name": "base",
        "hidden": True,
        "generator": "Ninja",
        "binaryDir": "${sourceDir}/build/cells/${presetName}",
        "cacheVariables": {"CMAKE_BUILD_TYPE": "Release"},
    }
    host = {
        "name": "host",
        "displayName": "The host library",
        "inherits": "base",
        "binaryDir": "${sourceDir}/build/host",
        "cacheVariables": {"FA3_HOST": "ON"},
    }
    configure = [base, *map(_configure, matrix.buildable), host]
    names = [*(cell.name for cell in matrix.buildable), "host"]
    data = {
        "version": 6,
        "cmakeMinimumRequired": {"major": 4, "minor": 1, "patch": 0},
        "configurePresets": configure,
        "buildPresets": [{"name": name, "configurePreset": name} for name in names],
    }
    return json.dumps(data, indent=2) + "\n"


def _configure(cell: Cell | Twin) -> dict[str, Any]:
    return {
        "name": cell.name,
        "displayName": f"{cell.arch.name} with CUDA {cell.toolkit.version}: {cell.target}",
        "inherits": "base",
        "cacheVariables": {"FA3_CELL": cell.name},
    }
