"""The corpus: small inputs, each in the folder of its rule, whose first lines say what is to be thought of them.

Comments at the top of an input, in its language's own syntax:

``corpus: STATE``
    what the scanner is to say: see `State`.
``with: OPTIONS``
    it breaks when these are given to the compiler, and not without them.
``at: LINES``
    where, if a compiler cannot tell; otherwise it is where the new toolkit's compiler has its errors.
``witness: TEXT``
    a line of C++ that both compilers are given: after the input, or, if it is in another language, instead of it.
``nvcc: OPTIONS``
    options that both toolkits' nvcc are given, with the witness or with nothing to compile.
``linked: TEXT``
    a line of another unit, in a shared library that the input is linked to.
``documented: URL``
    no compiler reads it: what is known of it is written there.
"""

import re
import shlex
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

INPUTS = Path(__file__).parent / "inputs"
COMPILED = (".c", ".cpp", ".cu")

_KEYS = ("corpus", "with", "at", "witness", "nvcc", "linked", "documented")
_HEADER = re.compile(rf"(?://|#)\s*(?P<key>{'|'.join(_KEYS)}): (?P<value>.*)")


class State(StrEnum):
    """What the scanner is to say of an input, at its lines and nowhere else."""

    BREAK = "break"
    LATENT = "latent"
    SUPPRESSED = "suppressed"
    WARN = "warn"  # deprecated
    SILENT = "silent"
    INFO = "info"
    GUARDED = "guarded"  # breaks that are inactive, wherever they are
    CLEAN = "clean"  # nothing
    UNSEEN = "unseen"  # it breaks, and the scanner does not look for it


@dataclass(frozen=True)
class Input:
    """One input. ``name``: relative to `INPUTS`; the rest as its header says, see above."""

    name: str
    state: State
    options: tuple[str, ...]
    at: tuple[int, ...] | None
    witness: str
    nvcc: tuple[str, ...] | None
    linked: str
    documented: str | None

    @property
    def path(self) -> Path:
        """The file."""
        return INPUTS / self.name

    @property
    def rule(self) -> str:
        """What it is about."""
        return self.name.partition("/")[0]


def read_all() -> list[Input]:
    """All of them, by name."""
    return [_read(path) for path in sorted(INPUTS.rglob("*")) if path.is_file()]


def _read(path: Path) -> Input:
    said: dict[str, list[str]] = {key: [] for key in _KEYS}
    for line in path.read_text(encoding="utf-8").splitlines():
        match = _HEADER.fullmatch(line)
        if match is None:
            break
        said[match["key"]].append(match["value"])
    (state,) = said["corpus"]
    judges = ("witness", "nvcc", "linked", "documented")
    if not path.name.endswith(COMPILED) and not any(said[key] for key in judges):
        raise ValueError(f"{path}: no compiler reads it: it needs one of {', '.join(judges)}")
    return Input(
        name=path.relative_to(INPUTS).as_posix(),
        state=State(state),
        options=tuple(shlex.split(" ".join(said["with"]))),
        at=tuple(map(int, said["at"][0].split())) if said["at"] else None,
        witness="".join(f"{line}\n" for line in said["witness"]),
        nvcc=tuple(shlex.split(said["nvcc"][0])) if said["nvcc"] else None,
        linked="".join(f"{line}\n" for line in said["linked"]),
        documented=next(iter(said["documented"]), None),
    )
