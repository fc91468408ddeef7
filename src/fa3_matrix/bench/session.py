"""What the commands share: which builds they run on, what they say when they cannot, where results go."""

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fa3_matrix import _json
from fa3_matrix._extras import needs
from fa3_matrix.bench import machine, results
from fa3_matrix.bench.machine import REQUIRE_GPU
from fa3_matrix.bench.results import Document, Stopwatch, manifest_sha256
from fa3_matrix.build import Manifest
from fa3_matrix.errors import BenchError, Fa3Error
from fa3_matrix.matrix import ComputeCapability, Matrix, load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that every command takes."""
    parser.add_argument(
        "--build",
        "--builds",
        nargs="+",
        action="extend",
        type=Path,
        default=[],
        metavar="DIR",
        help="build folders; default: all in build/cells that this GPU can load",
    )
    parser.add_argument(
        "--gpu", help="refuse any other GPU than this one of ci/matrix.toml, e.g. h100"
    )
    parser.add_argument(
        "--results", type=Path, metavar="DIR", help="where results go; default: build/results"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results here")


@dataclass(frozen=True)
class Session:
    """The builds that can run here, those that cannot and why, and where results go.

    `builds` is empty when there is no GPU for them: `reason` then says why, in one sentence.
    """

    matrix: Matrix
    builds: dict[str, Path]
    refused: dict[str, tuple[Path, str]]
    reason: str
    results: Path
    json: Path | None
    watch: Stopwatch

    def write(self, documents: list[Document], *, keep: bool = True) -> None:
        """Write one file a document, and all of them to ``--json`` (a list, if there are several).

        A document that says less than what is there for the same build does not replace it: one that was not run, or
        a smoke suite that passed.
        """
        for document in documents if keep else []:
            cell = document["cell"]
            name = document["kind"] if isinstance(cell, list) else f"{document['kind']}-{cell}"
            path = self.results / f"{name}.json"
            if not _says_less(document, path):
                _json.write_atomic(path, document)
        if self.json and documents:
            content = documents[0] if len(documents) == 1 else {"results": documents}
            _json.write_atomic(self.json, content)

    def not_run(self, kind: str, **more: Any) -> list[Document]:
        """A document for each build that cannot run here."""
        return [
            results.document(
                kind,
                name,
                state="not run",
                reason=reason,
                watch=self.watch,
                machine=machine.describe(),
                manifest_sha256=manifest_sha256(folder),
                **more,
            )
            for name, (folder, reason) in self.refused.items()
        ]


def open_session(arguments: argparse.Namespace) -> Session:
    """Sorts the builds that `arguments` name into those that run here and those that do not.

    Raises BenchError when FA3_REQUIRE_GPU=1 and nothing can run.
    """
    matrix = load()
    reason = machine.why_not(arguments.gpu, matrix) if arguments.gpu else machine.why_no_gpu()
    folders = [build_folder(path) for path in arguments.build]
    if not folders:
        found = sorted((matrix.root / "build" / "cells").glob("*/fa3/manifest.json"))
        folders = [path.parent for path in found]
    builds: dict[str, Path] = {}
    refused: dict[str, tuple[Path, str]] = {}
    for folder in folders:
        manifest = Manifest.read(folder)
        why = reason or why_not_on(manifest, machine.capability())
        if why:
            refused[manifest.cell] = (folder, why)
        elif manifest.cell in builds:
            raise BenchError(f"two builds of {manifest.cell}: {builds[manifest.cell]} and {folder}")
        else:
            builds[manifest.cell] = folder
    if not folders:
        reason = reason or "nothing is built yet: `nox -s build` builds every cell"
    elif not builds and not reason:
        reason = "no build here runs on this GPU"
    if reason and os.environ.get(REQUIRE_GPU) == "1":
        raise BenchError(f"{REQUIRE_GPU}=1, but {reason}")
    return Session(
        matrix=matrix,
        builds=builds,
        refused=refused,
        reason=reason,
        results=arguments.results or matrix.root / "build" / "results",
        json=arguments.json,
        watch=Stopwatch(),
    )


def names(values: Iterable[str]) -> list[str]:
    """The names in `values`, each of which may be several, separated by commas."""
    return list(dict.fromkeys(name for value in values for name in value.split(",") if name))


def only(session: Session, arms: Sequence[str]) -> Session:
    """`session` with those of its builds that `arms` names.

    An arm is a cell or a twin ("sm90-cu124"), or a toolkit ("cu124") for the cell that it makes for this GPU.

    Raises:
        MatrixError: there is no such cell.
        BenchError: it is not built.
    """
    wanted: list[str] = []
    for arm in arms:
        meant = _cells_of(arm, session.matrix)
        built = [name for name in (*session.builds, *session.refused) if name in meant]
        if not built:
            raise BenchError(
                f"{arm}: {_missing(meant)}; there is "
                f"{', '.join((*session.builds, *session.refused)) or 'nothing'}. "
                "`nox -s build-<cell>` builds one"
            )
        wanted += built
    return replace(
        session,
        builds={name: path for name, path in session.builds.items() if name in wanted},
        refused={name: why for name, why in session.refused.items() if name in wanted},
    )


def _missing(cells: Sequence[str]) -> str:
    if not cells:
        return "no cell is for this GPU"
    return f"{cells[0]} is not built" if len(cells) == 1 else f"none of {', '.join(cells)} is built"


def _cells_of(arm: str, matrix: Matrix) -> list[str]:
    if arm not in [toolkit.label for toolkit in matrix.toolkits]:
        return [matrix.cell(arm).name]
    here = machine.gpu_here(matrix)
    return [
        cell.name
        for cell in matrix.cells
        if cell.toolkit.label == arm and here in (None, cell.arch.gpu)
    ]


def build_folder(path: Path) -> Path:
    """The folder that holds the manifest: `path`, or its ``fa3`` when `path` is CMake's folder of the cell."""
    for folder in (path, path / "fa3"):
        if (folder / "manifest.json").is_file():
            return folder.resolve()
    raise BenchError(
        f"{path} holds no build: no manifest.json there or in its fa3/; `nox -s build` makes one"
    )


def why_not_on(manifest: Manifest, capability: ComputeCapability) -> str:
    """One sentence when this build cannot be loaded on such a GPU, else an empty string."""
    low, high = (ComputeCapability(*c) for c in manifest.capability_range)
    if low <= capability <= high:
        return ""
    return f"{manifest.target} does not run on compute capability {capability}"


def say(text: str) -> None:
    """One line on stdout, at once: long runs are watched."""
    print(text, flush=True)


def header(session: Session) -> None:
    """Names the GPU, what runs on it and what does not."""
    here = machine.describe()
    if here["gpu"]:
        say(f"{here['gpu']}, driver {here['driver']}, torch {here['torch']}")
    for name, (_, reason) in session.refused.items():
        say(f"{name}: not run: {reason}")
    if session.reason and not session.refused:
        say(f"not run: {session.reason}")


def main(run: Any, arguments: argparse.Namespace) -> int:
    """Runs a command; an error of ours, or a missing package, is a sentence and exit code 2, not a traceback."""
    try:
        with needs("bench", 2):
            return int(run(arguments))
    except Fa3Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _says_less(document: Document, path: Path) -> bool:
    if not path.is_file():
        return False
    there = _json.read(path)
    if there.get("manifest_sha256") != document.get("manifest_sha256"):
        return False
    if there["state"] == "not run":
        return False
    smoke = document.get("suite") == "smoke" and there.get("suite") != "smoke"
    return document["state"] == "not run" or (smoke and document["state"] == "passed")
