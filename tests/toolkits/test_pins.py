"""The pins file itself."""

import re
from pathlib import PurePosixPath

import pytest

from fa3_matrix.toolkits._pins import Package, recipes

PACKAGES = [package for recipe in recipes().values() for package in recipe.packages]


@pytest.mark.parametrize("package", PACKAGES, ids=str)
def test_package_is_pinned(package: Package) -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", package.sha256)
    assert re.fullmatch(r"[\w.~]+", package.version.replace("-", ""))
    assert package.bytes > 0
    assert package.layout
    assert package.file.endswith(".whl" if package.kind == "wheel" else ".deb")
    assert package.version in package.file
    assert (package.kind == "debian") == bool(package.suite and package.component)


def test_layout_maps_files_and_folders() -> None:
    (nvcc,) = (p for p in recipes()["cuda-12.4"].packages if p.kind == "debian")
    assert nvcc.destination("usr/lib/nvidia-cuda-toolkit/bin/cicc") == PurePosixPath(
        "nvvm/bin/cicc"
    )
    assert nvcc.destination("usr/lib/nvidia-cuda-toolkit/libdevice/x.bc") == PurePosixPath(
        "nvvm/libdevice/x.bc"
    )
    # Debian's wrapper script, which names paths of an installed system.
    assert nvcc.destination("usr/bin/nvcc") is None


def test_digest_follows_the_content() -> None:
    first, second = recipes()["cuda-12.4"], recipes()["cuda-13.3"]
    assert first.digest == recipes()["cuda-12.4"].digest
    assert first.folder != second.folder
