"""What both toolkits' compilers say of the corpus. The scanner has no part in it."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fa3_matrix import toolkits
from fa3_matrix.migrate.prove import Compiled, Unit, compile_unit
from fa3_matrix.toolkits import ToolkitRoot

from .inputs import COMPILED, Input

VERDICTS = Path(__file__).parent / "verdicts.json"
VERSIONS = ("12.4", "13.3")


@dataclass(frozen=True)
class Said:
    """What one toolkit said. ``message``: the first error's first line; lines: of the input, each once."""

    ok: bool
    message: str | None
    errors: tuple[int, ...] = ()
    warnings: tuple[int, ...] = ()


def judged(one: Input, roots: Sequence[ToolkitRoot]) -> dict[str, Any]:
    """Its verdict as `VERDICTS` holds it.

    ``runs``: what was given to the toolkits and what each said. Of two, the first is the input as it is, which both
    take, and the second is with the options or the witness that show what has changed.
    """
    if one.documented:
        return {"documented": one.documented}
    return {
        "runs": [
            {
                "given": given,
                "said": {root.version: asdict(_said(one, given, root)) for root in roots},
            }
            for given in _given(one)
        ]
    }


def _given(one: Input) -> Iterator[str]:
    if one.nvcc is not None:
        yield " ".join(one.nvcc)
    elif one.linked:
        yield "linked"
    elif not one.path.name.endswith(COMPILED):
        yield "witness"
    else:
        yield "as it is"
        if one.options:
            yield " ".join(one.options)
        elif one.witness:
            yield "and its witness"


def _said(one: Input, given: str, root: ToolkitRoot) -> Said:
    with TemporaryDirectory(prefix="fa3-corpus-") as name:
        folder = Path(name)
        if one.nvcc is not None:
            return _by_nvcc(one.nvcc, one.witness, folder, root)
        if given == "linked":
            return _linked(one, folder, root)
        file, text = one.path.name, one.path.read_text(encoding="utf-8")
        if given == "witness":
            file, text = "witness.cpp", one.witness
        lines = text.count("\n")
        if given == "and its witness":
            text += one.witness
        (folder / file).write_text(text, encoding="utf-8")
        language = () if file.endswith(".c") else ("-std=c++17",)
        options = one.options if given == " ".join(one.options) else ()
        unit = Unit(file, (*language, *options), file.endswith(".cu"))
        compiled = compile_unit(unit, folder, root)
        return _of_lines(compiled, folder, root, file, lines if given != "witness" else 0)


def _of_lines(compiled: Compiled, folder: Path, root: ToolkitRoot, file: str, last: int) -> Said:
    found: dict[bool, set[int]] = {True: set(), False: set()}
    for diagnostic in compiled.diagnostics:
        place, line = diagnostic.places[0]
        if place == file and line <= last:
            found[diagnostic.error].add(line)
    message = None if compiled.succeeded else _clean(compiled.first_error, folder, root)
    return Said(
        compiled.succeeded, message, tuple(sorted(found[True])), tuple(sorted(found[False]))
    )


def _by_nvcc(options: Sequence[str], text: str, folder: Path, root: ToolkitRoot) -> Said:
    (folder / "witness.cu").write_text(text, encoding="utf-8")
    command = [*_nvcc(root), *options, "-fdevice-syntax-only", "witness.cu", "-o", "witness.o"]
    return _done(command, folder, root)


def _linked(one: Input, folder: Path, root: ToolkitRoot) -> Said:
    """The input in one shared library, what it is linked to in another."""
    (folder / "input.cu").write_text(one.path.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "other.cu").write_text(one.linked, encoding="utf-8")
    name = f"libcudart.so.{root.version.partition('.')[0]}"
    runtime = next(
        path for place in ("lib64", "lib") if (path := root.root / place / name).exists()
    )
    host = toolkits.host_compiler(root)
    link = [host, "-shared", "-Wl,--no-undefined"]
    for command in (
        [*_nvcc(root), "-arch=sm_80", "-Xcompiler=-fPIC", "other.cu", "-o", "other.o"],
        [*link, "other.o", str(runtime), "-o", "libother.so"],
        [*_nvcc(root), "-arch=sm_80", "-Xcompiler=-fPIC", "input.cu", "-o", "input.o"],
        [*link, "input.o", "libother.so", str(runtime), "-o", "libinput.so"],
    ):
        said = _done(command, folder, root)
        if not said.ok:
            return said
    return said


def _nvcc(root: ToolkitRoot) -> list[str]:
    return [str(root.nvcc), f"-ccbin={toolkits.host_compiler(root)}", "-c"]


def _done(command: Sequence[str], folder: Path, root: ToolkitRoot) -> Said:
    done = subprocess.run(
        command,
        cwd=folder,
        env=toolkits.clean_environment() | {"LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return Said(True, None)
    lines = (done.stdout + done.stderr).splitlines()
    told = ("error", "fatal", "undefined reference")
    first = next((line for line in lines if any(word in line for word in told)), "no message")
    return Said(False, _clean(first, folder, root))


def _clean(message: str, folder: Path, root: ToolkitRoot) -> str:
    """Without folders of this machine, and names of temporary files."""
    for path in (folder, root.root):
        message = message.replace(f"{path}/", "")
    return re.sub(r"^tmpxft_\S+ ", "", " ".join(message.split()))
