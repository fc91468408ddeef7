"""The matrix: what is built, for which GPU, with which toolkit. Read from ``ci/matrix.toml``."""

from fa3_matrix.matrix.gate import GateLimits, GateWaiver, MarginRow, StaticLimits
from fa3_matrix.matrix.model import (
    Arch,
    Cell,
    Gpu,
    Matrix,
    Serves,
    Sm80Options,
    Sm90Options,
    SpillWaiver,
    SplitKvOptions,
    Toolkit,
    Twin,
    Variant,
)
from fa3_matrix.matrix.reader import load, parse
from fa3_matrix.matrix.suites import ProblemRow, Suite
from fa3_matrix.matrix.target import ComputeCapability, Target

__all__ = [
    "Arch",
    "Cell",
    "ComputeCapability",
    "GateLimits",
    "GateWaiver",
    "Gpu",
    "MarginRow",
    "Matrix",
    "ProblemRow",
    "Serves",
    "Sm80Options",
    "Sm90Options",
    "SpillWaiver",
    "SplitKvOptions",
    "StaticLimits",
    "Suite",
    "Target",
    "Toolkit",
    "Twin",
    "Variant",
    "load",
    "parse",
]
