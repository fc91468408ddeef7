"""Fetch a pinned package into the cache's download folder, once, and verify it."""

import hashlib
import shutil
from pathlib import Path

from fa3_matrix._progress import progress
from fa3_matrix.errors import ToolkitError

from . import _debian, _pip
from ._cache import cache_dir
from ._pins import Package

_DOWNLOADERS = {"wheel": _pip.download, "debian": _debian.download}


def fetch(package: Package) -> Path:
    """Return the verified archive of `package`, downloading it unless it is already there.

    A finished download is kept, so that an interrupted installation goes on with the next package.
    The caller holds the recipe's lock.

    Raises:
        ToolkitError: It could not be downloaded, or its sha256 is not the pinned one.
    """
    archive = cache_dir() / "downloads" / package.sha256[:16] / package.file
    if archive.exists() and file_sha256(archive) == package.sha256:
        return archive
    archive.unlink(missing_ok=True)

    incoming = archive.parent / "incoming"
    # What a killed downloader left: neither pip nor `apt-get download` goes on with a part of a file.
    shutil.rmtree(incoming, ignore_errors=True)
    incoming.mkdir(parents=True)
    with progress(f"download {package}", unit="bytes") as bar:
        _DOWNLOADERS[package.kind](
            package, incoming, lambda done: bar.update(min(done, package.bytes), package.bytes)
        )
    arrived = [path for path in incoming.iterdir() if path.suffix in (".whl", ".deb")]
    if len(arrived) != 1:
        raise ToolkitError(f"{package}: expected one file, found {sorted(p.name for p in arrived)}")
    found = file_sha256(arrived[0])
    if found != package.sha256:
        shutil.rmtree(incoming)
        raise ToolkitError(
            f"hash mismatch: {package} arrived with sha256 {found}, pinned is {package.sha256}; "
            "it was deleted and nothing was installed"
        )
    arrived[0].replace(archive)
    shutil.rmtree(incoming)
    return archive


def file_sha256(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
