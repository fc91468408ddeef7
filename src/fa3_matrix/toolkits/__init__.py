"""CUDA toolkits: find them, provision them into the user's cache, probe them."""

from ._cache import cache_dir
from ._environment import clean_environment, scrubbed
from ._find import (
    InspectionTools,
    ToolkitRoot,
    find,
    inspection,
    provisionable,
    torch_headers,
)
from ._host_compiler import host_compiler
from ._probe import Probe, complete
from ._report import ToolkitState, report, table, text

__all__ = [
    "InspectionTools",
    "Probe",
    "ToolkitRoot",
    "ToolkitState",
    "cache_dir",
    "clean_environment",
    "complete",
    "find",
    "host_compiler",
    "inspection",
    "provisionable",
    "report",
    "scrubbed",
    "table",
    "text",
    "torch_headers",
]
