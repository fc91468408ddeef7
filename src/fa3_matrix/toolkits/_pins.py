"""The recipes of `pins.toml`: what provisioning downloads and how it assembles it."""

import hashlib
import json
import tomllib
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Literal

PINS = Path(__file__).with_name("pins.toml")


@dataclass(frozen=True)
class Package:
    """One pinned download."""

    kind: Literal["wheel", "debian"]
    name: str
    version: str
    file: str
    bytes: int
    sha256: str
    layout: dict[str, str]
    pip_options: tuple[str, ...] = ()
    suite: str = ""
    component: str = ""

    def __str__(self) -> str:
        return f"{self.name}{'==' if self.kind == 'wheel' else '='}{self.version}"

    def destination(self, member: str) -> PurePosixPath | None:
        """Where a file of the archive goes in the installed tree, or None if it is left out."""
        for source, target in self.layout.items():
            if member == source:
                return PurePosixPath(target)
            if source.endswith("/") and member.startswith(source):
                return PurePosixPath(target) / member.removeprefix(source)
        return None


@dataclass(frozen=True)
class Recipe:
    """A tree to install: its packages, and the files and links written after them."""

    name: str
    packages: tuple[Package, ...]
    machine: str = ""
    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Changes whenever anything that decides the installed tree's content does."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def folder(self) -> str:
        """Name of the installed tree's folder, so that another recipe never reuses it."""
        return f"{self.name}-{self.digest[:12]}"


def read(path: Path = PINS) -> dict[str, Recipe]:
    """Read all recipes of a pins file, by name."""
    tables: dict[str, Any] = tomllib.loads(path.read_text())["recipes"]
    return {name: _recipe(name, table) for name, table in tables.items()}


@cache
def recipes() -> dict[str, Recipe]:
    """The recipes that this version of fa3-matrix pins, by name."""
    return read()


def _recipe(name: str, table: dict[str, Any]) -> Recipe:
    packages = tuple(
        Package(**{**row, "pip_options": tuple(row.get("pip_options", ()))})
        for row in table["packages"]
    )
    return Recipe(name=name, **{**table, "packages": packages})
