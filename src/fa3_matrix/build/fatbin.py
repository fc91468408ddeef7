"""What a fatbin holds, by cuobjdump of 13.3 (12.4's calls a 90a cubin plain ``sm_90``)."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from fa3_matrix.errors import AuditError

_LISTED = re.compile(r"^(?P<kind>ELF|PTX) file\s+\d+:\s*(?P<name>\S+)\s*$", re.MULTILINE)
_ENTRY = re.compile(r"^Fatbin (?P<kind>\w+) code", re.MULTILINE)
_SUFFIX = re.compile(r"\.(?P<arch>sm_\w+)\.(?:cubin|ptx)$")


@dataclass(frozen=True)
class Image:
    """One image; ``arch`` is cuobjdump's, ``sm_90a`` or, for PTX, ``compute_90``, without a suffix ``f``."""

    kind: str
    arch: str
    name: str


def _run(cuobjdump: Path, arguments: list[str], folder: Path) -> str:
    done = subprocess.run(
        [cuobjdump, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        message = (done.stderr or done.stdout).strip()
        raise AuditError(f"{cuobjdump.name} {' '.join(arguments)} failed: {message}")
    return done.stdout


def images(cuobjdump: Path, fatbin: Path) -> tuple[Image, ...]:
    """Every image in ``fatbin``, in order, SASS before PTX.

    Raises:
        AuditError: cuobjdump failed, printed a name of unknown form, or an entry is neither SASS nor PTX.
    """
    found: list[Image] = []
    for flag in ("-lelf", "-lptx"):
        for listed in _LISTED.finditer(_run(cuobjdump, [flag, str(fatbin)], fatbin.parent)):
            suffix = _SUFFIX.search(listed["name"])
            if suffix is None:
                raise AuditError(
                    f"{cuobjdump.name} lists {listed['name']!r} in {fatbin.name}: no target in the name"
                )
            arch = suffix["arch"]
            if listed["kind"] == "PTX":
                arch = arch.replace("sm_", "compute_", 1)
            found.append(Image(listed["kind"], arch, listed["name"]))
    # -lelf and -lptx pass over LTO-IR; the plain dump names every entry.
    entries = _ENTRY.findall(_run(cuobjdump, [str(fatbin)], fatbin.parent))
    if len(entries) != len(found):
        raise AuditError(
            f"{fatbin.name} has {len(entries)} entries ({', '.join(entries)}), but only {len(found)} are SASS or PTX"
        )
    return tuple(found)


def extract(cuobjdump: Path, fatbin: Path, image: Image, folder: Path) -> Path:
    """Write one image of ``fatbin`` into ``folder`` and return its path.

    Raises:
        AuditError: cuobjdump failed or did not write the file.
    """
    flag = "-xelf" if image.kind == "ELF" else "-xptx"
    _run(cuobjdump, [flag, image.name, str(fatbin.resolve())], folder)
    path = folder / image.name
    if not path.is_file():
        raise AuditError(f"{cuobjdump.name} did not extract {image.name} from {fatbin.name}")
    return path
