"""Download one pinned Debian package with apt-get, from this machine's own Debian mirror.

Nothing of the machine's apt is touched: source list, package lists and archive folder are private.
"""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from shutil import which

from fa3_matrix.errors import ToolkitError

from ._pins import Package
from ._process import last_lines, run_watched

# Names that Debian's own archive uses; third parties add a suffix, as does the security archive.
_DEBIAN_SUITES = {
    *("stable", "testing", "unstable", "sid", "oldstable", "oldoldstable"),
    *("buster", "bullseye", "bookworm", "trixie", "forky", "duke"),
}


def download(package: Package, folder: Path, watch: Callable[[int], None]) -> None:
    """Download `package` into `folder`; `watch` is told the number of bytes there so far.

    Raises:
        ToolkitError: apt-get, dpkg-deb or a mirror is missing, or no mirror has this version.
    """
    for tool in ("apt-get", "dpkg-deb"):
        if which(tool) is None:
            raise ToolkitError(f"{package} needs `{tool}`, which this machine has not")
    found = mirrors()
    if not found:
        raise ToolkitError(
            f"{package} comes from a Debian mirror, and apt on this machine has none configured"
        )
    said = []
    for mirror in found:
        status, output = _download_from(mirror, package, folder, watch)
        if status == 0:
            return
        said.append(f"{mirror}:\n{last_lines(output)}")
    raise ToolkitError(
        f"could not download {package} ({package.suite}/{package.component}) with apt-get; "
        "nothing was installed. apt-get said of " + "\nof ".join(said)
    )


def mirrors() -> list[str]:
    """Debian mirrors to try: `FA3_DEBIAN_MIRROR`, else those that this machine's apt is set to."""
    if chosen := os.environ.get("FA3_DEBIAN_MIRROR"):
        return [chosen]
    # Not `indextargets`: that shows nothing on a machine whose package lists were never fetched.
    command = ["apt-get", "-oDebug::NoLocking=1", "update", "--print-uris"]
    uris = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.findall(r"^'(\S+?)/?dists/(\S+)/InRelease'", uris, re.MULTILINE)
    return list(dict.fromkeys(mirror for mirror, suite in found if suite in _DEBIAN_SUITES))


def _download_from(
    mirror: str, package: Package, folder: Path, watch: Callable[[int], None]
) -> tuple[int, str]:
    apt = folder / "apt"
    for name in ("sources", "lists/partial", "cache/archives/partial"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    # Trusted: the pinned sha256, checked after the download, is what the file is trusted for. The
    # machine may be an older release, or not Debian, and lack the key that signs this suite.
    (apt / "sources" / "fa3.sources").write_text(
        f"Types: deb\nURIs: {mirror}\nSuites: {package.suite}\nComponents: {package.component}\n"
        "Architectures: amd64\nTrusted: yes\n"
    )
    options = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": apt / "sources",
        "Dir::State::lists": apt / "lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": apt / "cache",
        "APT::Architecture": "amd64",
        "APT::Architectures": "amd64",
        "APT::Update::Error-Mode": "any",
        # root would hand the download to a user who may not write to this folder.
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
    }
    command = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items())]
    status, output = run_watched([*command, "update"], os.environ, folder, watch)
    if status != 0:
        return status, output
    wanted = f"{package.name}={package.version}"
    return run_watched([*command, "download", wanted], os.environ, folder, watch)
