"""Download one pinned Debian package with apt-get, from this machine's own Debian mirror.

Nothing of the machine's apt is touched: the source list, the package lists and the archive folder are private.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from shutil import which

from fa3_matrix.errors import ToolkitError

from ._pins import Package
from ._process import last_lines, run_watched

# Release names that only Debian's own archive uses without a suffix; "-security" suites live on another archive.
_DEBIAN_SUITES = {
    *("stable", "testing", "unstable", "sid", "oldstable", "oldoldstable"),
    *("buster", "bullseye", "bookworm", "trixie", "forky", "duke"),
}


def download(package: Package, folder: Path, watch: Callable[[int], None]) -> None:
    """Download `package` into `folder`; `watch` is told the number of bytes there so far.

    Raises:
        ToolkitError: apt-get, dpkg-deb or a Debian mirror is missing, or no mirror has this version.
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
    """Debian mirrors to try: `FA3_DEBIAN_MIRROR`, else those that apt on this machine is configured with."""
    if chosen := os.environ.get("FA3_DEBIAN_MIRROR"):
        return [chosen]
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(CODENAME) $(SUITE) $(COMPONENT) $(REPO_URI)"]
        + ["Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    rows = [line.split() for line in targets.splitlines()]
    return list(
        dict.fromkeys(
            row[-1]
            for row in rows
            if len(row) >= 3 and row[-2] == "main" and _DEBIAN_SUITES & set(row[:-2])
        )
    )


def _download_from(
    mirror: str, package: Package, folder: Path, watch: Callable[[int], None]
) -> tuple[int, str]:
    apt = folder / "apt"
    for name in ("sources", "lists/partial", "cache/archives/partial"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    # Trusted: what makes the file trustworthy is its pinned sha256, checked after the download; the machine may be
    # an older release, or not Debian, and then it lacks the key that signs this suite.
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
    # Run in `folder`, where apt-get leaves an interrupted file and goes on with it the next time.
    wanted = f"{package.name}={package.version}"
    return run_watched([*command, "download", wanted], os.environ, folder, watch)
