"""What nvcc is asked for in a cell, and where the result runs.

Rules, from the CUDA programming guide's sections on binary, PTX, architecture-specific and
family-specific compatibility:

==========  =====================================  ==========================================
target      SASS (``sm_``) runs on                 PTX (``compute_``) runs on
==========  =====================================  ==========================================
``90``      same major, device minor >= 0          any capability >= 9.0 (driver compiles it)
``90a``     exactly 9.0                            exactly 9.0
``100f``    same family: major 10, minor >= 0      as its SASS
==========  =====================================  ==========================================
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, Self

Suffix = Literal["", "a", "f"]
Form = Literal["sass", "ptx"]

_SUFFIXES: dict[str, Suffix] = {"": "", "a": "a", "f": "f"}
_FORMS: dict[str, Form] = {"sm": "sass", "compute": "ptx"}
_PATTERN = re.compile(r"(sm|compute)_([1-9]\d*)(\d)([af]?)", re.ASCII)


class ComputeCapability(NamedTuple):
    """A GPU's compute capability, such as 9.0. Orders by major, then minor."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``"9.0"``; raises ``ValueError`` on anything else."""
        match = re.fullmatch(r"(\d{1,2})\.(\d)", text, re.ASCII)
        if not match:
            raise ValueError(f"{text!r} is not a compute capability; write it like '9.0'")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


# The upper end for PTX, which the driver compiles for any newer GPU.
NEWEST_CAPABILITY = ComputeCapability(99, 9)


class HasTargets(Protocol):
    """Whatever states the targets that its nvcc accepts: a ``Toolkit``, a toolkit's probe."""

    @property
    def targets(self) -> Collection[str]: ...


@dataclass(frozen=True)
class Target:
    """One code generation target: ``sm_90a`` (SASS) or ``compute_90`` (PTX)."""

    major: int
    minor: int
    suffix: Suffix = ""
    form: Form = "sass"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read nvcc's spelling: ``sm_80``, ``sm_90a``, ``sm_100f``, ``compute_90``.

        Raises:
            ValueError: ``text`` is not such a name.
        """
        match = _PATTERN.fullmatch(text)
        if not match:
            raise ValueError(
                f"{text!r} is not a target; write it like sm_80, sm_90a, sm_100f or compute_90"
            )
        return cls(int(match[2]), int(match[3]), _SUFFIXES[match[4]], _FORMS[match[1]])

    def __str__(self) -> str:
        return ("sm_" if self.form == "sass" else "compute_") + self.number

    @property
    def number(self) -> str:
        """The bare number with its suffix: ``90a``."""
        return f"{self.major}{self.minor}{self.suffix}"

    @property
    def code(self) -> str:
        """The SASS name of the same number, as ``nvcc --list-gpu-code`` prints it: ``sm_90a``."""
        return f"sm_{self.number}"

    @property
    def virtual(self) -> str:
        """The virtual architecture of the same number: ``compute_90a``."""
        return f"compute_{self.number}"

    @property
    def cmake_architecture(self) -> str:
        """The ``CUDA_ARCHITECTURES`` entry for this image alone: ``90a-real``, ``90-virtual``."""
        return self.number + ("-real" if self.form == "sass" else "-virtual")

    def capability_range(self) -> tuple[ComputeCapability, ComputeCapability]:
        """The lowest and highest compute capability this image runs on, both inclusive."""
        built = ComputeCapability(self.major, self.minor)
        if self.suffix == "a":
            return built, built
        if self.suffix == "f" or self.form == "sass":
            return built, ComputeCapability(self.major, 9)
        return built, NEWEST_CAPABILITY

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Whether a GPU of that compute capability runs this image.

        PTX also needs a driver that knows its ISA.
        """
        lowest, highest = self.capability_range()
        return lowest <= ComputeCapability(*capability) <= highest

    def needs(self, toolkit: HasTargets | Collection[str]) -> bool:
        """Whether that toolkit can compile this target: its nvcc accepts the code.

        ``toolkit`` states ``targets``, or is the collection of them (``sm_80``, ``sm_90a`` ...)
        itself. nvcc makes PTX for exactly the numbers for which it makes SASS.
        """
        accepted = toolkit if isinstance(toolkit, Collection) else toolkit.targets
        return self.code in accepted
