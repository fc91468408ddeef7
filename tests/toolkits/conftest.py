"""Small real packages from a local wheel folder and a local Debian mirror: real pip and apt-get, no network."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import fa3_matrix.errors
from fa3_matrix.toolkits._pins import Package, Recipe

needs_apt = pytest.mark.skipif(
    shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None,
    reason="this machine has no apt-get and dpkg-deb",
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("FA3_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def wheelhouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is pip's only source."""
    folder = tmp_path / "wheelhouse"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@dataclass(frozen=True)
class Mirror:
    """A local Debian mirror with one suite."""

    folder: Path
    package: Package


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    """A Debian mirror of one package, `tool-deb`, chosen by FA3_DEBIAN_MIRROR."""
    folder = tmp_path / "debian"
    tree = tmp_path / "tool-deb"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        "Package: tool-deb\nVersion: 2.0~1-3\nArchitecture: amd64\nMaintainer: nobody <n@example>\n"
        "Description: test\n"
    )
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "usr/bin/tool").write_text("#!/bin/sh\necho ran\n")
    (tree / "usr/bin/tool").chmod(0o755)
    (tree / "usr/share").mkdir()
    # Incompressible, so that half of the archive is a meaningful place to be interrupted at.
    blob = b"".join(hashlib.sha256(str(n).encode()).digest() for n in range(20_000))
    (tree / "usr/share/blob").write_bytes(blob)
    deb = folder / "pool/tool-deb_2.0~1-3_amd64.deb"
    deb.parent.mkdir(parents=True)
    build = ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(deb)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    sha256 = hashlib.sha256(deb.read_bytes()).hexdigest()
    index = folder / "dists/trixie/non-free/binary-amd64/Packages"
    index.parent.mkdir(parents=True)
    index.write_text(
        "Package: tool-deb\nVersion: 2.0~1-3\nArchitecture: amd64\n"
        f"Filename: pool/{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {sha256}\n"
    )
    index_sha256 = hashlib.sha256(index.read_bytes()).hexdigest()
    (folder / "dists/trixie/Release").write_text(
        "Origin: Debian\nSuite: trixie\nCodename: trixie\nComponents: non-free\n"
        "Architectures: amd64\nSHA256:\n"
        f" {index_sha256} {index.stat().st_size} non-free/binary-amd64/Packages\n"
    )
    monkeypatch.setenv("FA3_DEBIAN_MIRROR", f"file:{folder}")
    package = Package(
        kind="debian",
        name="tool-deb",
        version="2.0~1-3",
        file="tool-deb_2.0~1-3_amd64.deb",
        bytes=deb.stat().st_size,
        sha256=sha256,
        layout={"usr/bin/": "bin/"},
        suite="trixie",
        component="non-free",
    )
    return Mirror(folder, package)


def make_wheel(folder: Path, name: str = "tool_wheel", text: str = "data") -> Package:
    """Write a wheel of one executable, one header and one file that the layout leaves out."""
    file = f"{name}-1.0-py3-none-any.whl"
    dist_info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / file, "w") as wheel:
        executable = zipfile.ZipInfo("root/bin/run")
        executable.external_attr = 0o100755 << 16
        wheel.writestr(executable, f"#!/bin/sh\necho {text}\n")
        wheel.writestr("root/include/tool.h", f"// {text}\n")
        wheel.writestr("root/include/__init__.py", "")
        wheel.writestr("other/unwanted.txt", "no")
        wheel.writestr(
            f"{dist_info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{dist_info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{dist_info}/RECORD", "")
    content = (folder / file).read_bytes()
    return Package(
        kind="wheel",
        name=name.replace("_", "-"),
        version="1.0",
        file=file,
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        layout={"root/": ""},
    )


def make_recipe(*packages: Package, **changes: object) -> Recipe:
    """A recipe named `tool` with a written file and a link."""
    fields: dict[str, object] = {
        "files": {"lib/empty.a": "!<arch>\n"},
        "links": {"lib/link.a": "empty.a"},
        **changes,
    }
    return Recipe(name="tool", packages=packages, **fields)  # type: ignore[arg-type]


def install_in_process(recipe: Recipe) -> subprocess.Popen[str]:
    """Start another process, with its children in a group of its own, that installs `recipe`."""
    code = (
        "from fa3_matrix.toolkits._install import install\n"
        "from fa3_matrix.toolkits._pins import Package, Recipe\n"
        f"print(install({recipe!r}))\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(fa3_matrix.errors.__file__).parents[1])},
    )
