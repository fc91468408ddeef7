"""Where provisioned trees live, and the lock that lets several processes provision at once."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fa3_matrix.errors import ToolkitError


def cache_dir() -> Path:
    """The cache folder: `FA3_CACHE_DIR`, else `fa3-matrix` in the user's cache folder.

    Raises:
        ToolkitError: The folder cannot be made or is not writable.
    """
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    path = Path(os.environ.get("FA3_CACHE_DIR") or f"{base}/fa3-matrix").expanduser().absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolkitError(
            f"the cache folder {path} cannot be made ({error.strerror}); "
            "set FA3_CACHE_DIR to a folder that you may write to"
        ) from error
    return path


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the cache's lock `name`; says on stderr that it waits when another process has it."""
    from filelock import (
        FileLock,
        Timeout,
    )  # here: what reads builds imports this, and needs no package

    folder = cache_dir() / "locks"
    folder.mkdir(exist_ok=True)
    lock = FileLock(folder / f"{name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        print(f"waiting for another process that is preparing {name} ...", file=sys.stderr)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
