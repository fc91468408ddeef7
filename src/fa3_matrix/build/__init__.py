"""Builds: drive CMake for a cell, audit what came out, compare two builds."""

from fa3_matrix.build.compare import Comparison, compare
from fa3_matrix.build.driver import Build, Timing, build_cell, build_host
from fa3_matrix.build.manifest import Manifest, VariantRecord

__all__ = [
    "Build",
    "Comparison",
    "Manifest",
    "Timing",
    "VariantRecord",
    "build_cell",
    "build_host",
    "compare",
]
