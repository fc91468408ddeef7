"""Errors that are not about an argument: one family.

Each message says what was met, what is allowed and what to do. Wrong arguments raise
``ValueError``, ``TypeError`` or ``NotImplementedError``.
"""


class Fa3Error(Exception):
    """Base of every error that fa3-matrix raises on purpose."""


class MatrixError(Fa3Error):
    """``ci/matrix.toml`` is missing, malformed or contradicts itself; names file and line."""


class ToolkitError(Fa3Error):
    """A CUDA toolkit or its headers cannot be found, provisioned or verified."""


class BuildError(Fa3Error):
    """Configuring or compiling a cell failed, or a build folder is incomplete."""


class AuditError(BuildError):
    """A fatbin does not hold what was asked for, or a compiler advisory or spill is not waived."""


class DriverError(Fa3Error):
    """The NVIDIA driver is missing, too old, or refused a call."""


class NoKernelError(Fa3Error):
    """No loaded build serves this GPU or this problem."""


class BenchError(Fa3Error):
    """A measurement or a correctness run could not be carried out."""


class ReportError(Fa3Error):
    """A report's inputs are missing or do not fit together."""
