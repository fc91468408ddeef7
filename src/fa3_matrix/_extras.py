"""A Python package that is missing is a sentence that names the extra which brings it, never a traceback."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs(extras: str, exit_code: int) -> Iterator[None]:
    """Around a command and its imports: a package that is missing ends the process with `exit_code`.

    Args:
        extras: that bring what is needed, such as "build,cli". torch has its own, whatever else is needed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package, _, _ = (error.name or "").partition(".")
        if package in ("", "fa3_matrix"):
            raise
        print(
            f"error: this needs the Python package {package!r}, which is not installed; "
            f"`pip install 'fa3-matrix[{'torch' if package == 'torch' else extras}]'` brings it",
            file=sys.stderr,
        )
        raise SystemExit(exit_code) from None
