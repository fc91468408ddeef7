"""Read wheels and Debian packages member by member."""

import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ._pins import Package


def members(package: Package, archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Yield path, permission bits and content of each regular file of the archive."""
    return _wheel(archive) if package.kind == "wheel" else _deb(archive)


def _wheel(archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    with zipfile.ZipFile(archive) as wheel:
        for member in wheel.infolist():
            # __init__.py files make import packages of folders that here are plain ones.
            if member.is_dir() or member.filename.endswith("/__init__.py"):
                continue
            with wheel.open(member) as content:
                # Upper half: Unix mode. zipfile.extract would drop the compilers' executable bit.
                yield member.filename, member.external_attr >> 16 & 0o777, content


def _deb(archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    # Never installed, only unpacked: the package's release need not be the machine's.
    command = ["dpkg-deb", "--fsys-tarfile", str(archive)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        with tarfile.open(fileobj=process.stdout, mode="r|") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isfile() else None
                if content is not None:
                    yield member.name.removeprefix("./"), member.mode & 0o777, content
