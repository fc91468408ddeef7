"""`python -m fa3_matrix.build.wheel sm90-cu133`: one cell's wheel, and the proof that it is fit to ship.

A wheel counts only when it was built in an isolated environment, holds no library of CUDA or torch,
carries the tag `py3-none-<manylinux>`, is small, and has been installed, imported and inspected in a
clean virtual environment without torch and without a GPU.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

from packaging.version import Version

from fa3_matrix import matrix
from fa3_matrix._progress import progress
from fa3_matrix.errors import BuildError, Fa3Error

# The machine's own: the driver, and the torch that has loaded the operators.
EXCLUDED_LIBRARIES = ("libcuda.so.*", "libtorch*", "libc10*")


def build_wheel(cell: str, out: Path) -> Path:
    """Builds, repairs, checks and tries the wheel of `cell`; returns its path in `out`.

    Raises BuildError when any of these fails; `out` is then left without the wheel.
    """
    root = matrix.load().root
    with tempfile.TemporaryDirectory(prefix="fa3-wheel-") as temporary:
        raw, repaired = Path(temporary, "raw"), Path(temporary, "repaired")
        with progress(f"pip wheel {cell}"):
            _run(
                [sys.executable, "-m", "pip", "wheel", str(root), "--no-deps", "-w", str(raw)]
                + ["-C", f"cmake.define.FA3_CELL={cell}"]
            )
        excludes = [word for name in EXCLUDED_LIBRARIES for word in ("--exclude", name)]
        with progress("auditwheel"):
            _run(
                [sys.executable, "-m", "auditwheel", "repair", *excludes]
                + ["-w", str(repaired), str(_only(raw))]
            )
        wheel = _only(repaired)
        check_contents(wheel, cell)
        with progress("install, import and inspect in a clean environment"):
            try_in_clean_environment(wheel, cell)
        out.mkdir(parents=True, exist_ok=True)
        final = out / wheel.name
        final.write_bytes(wheel.read_bytes())
    return final


def cell_name(name: str, toolkit: str | None = None) -> str:
    """The cell `name`, or that of the arch `name` by `toolkit` (default: the matrix's newest).

    Raises MatrixError when there is no such cell, arch or toolkit.
    """
    loaded = matrix.load()
    if toolkit is None and name not in [arch.name for arch in loaded.archs]:
        return loaded.cell(name).name
    version = toolkit or max((t.version for t in loaded.toolkits), key=Version)
    return loaded.cell(f"{loaded.arch(name).name}-{loaded.toolkit(version).label}").name


def check_contents(wheel: Path, cell: str) -> None:
    """Checks a wheel's tag, size and files against the cell's manifest inside it; raises BuildError."""
    if "-py3-none-manylinux" not in wheel.name:
        raise BuildError(f"{wheel.name}: the tag must be py3-none-manylinux..., for every Python 3")
    size = wheel.stat().st_size
    budget = matrix.load().static.wheel_bytes
    if size > budget:
        raise BuildError(f"{wheel.name} is {size} bytes, the budget is {budget}")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        folder = f"fa3_matrix/cells/{cell}"
        if f"{folder}/manifest.json" not in names:
            raise BuildError(f"{wheel.name} holds no {folder}/manifest.json")
        manifest = json.loads(archive.read(f"{folder}/manifest.json"))
    libraries = {name for name in names if ".so" in Path(name).name}
    expected = {f"fa3_matrix/lib/libfa3_{part}.so" for part in ("host", "torch", "direct")}
    if libraries != expected:
        raise BuildError(
            f"{wheel.name} must hold the libraries {sorted(expected)} and no other; "
            f"it holds {sorted(libraries)}"
        )
    fatbins = {name for name in names if name.endswith(".fatbin")}
    stated = {f"{folder}/{variant['file']}" for variant in manifest["variants"]}
    if fatbins != stated:
        raise BuildError(f"{wheel.name}: fatbins and manifest differ: {sorted(fatbins ^ stated)}")


def try_in_clean_environment(wheel: Path, cell: str) -> None:
    """Installs the wheel alone into a new virtual environment and inspects it there; raises BuildError."""
    with tempfile.TemporaryDirectory(prefix="fa3-clean-") as temporary:
        venv.create(temporary, with_pip=True)
        python = str(Path(temporary, "bin", "python"))
        _run([python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", str(wheel)])
        low, _ = matrix.load().cell(cell).target.capability_range()
        # explain() loads the host library and asks it: without torch and without a driver.
        code = (
            "import sys, fa3_matrix\n"
            "cells = [build.cell for build in fa3_matrix.available_builds()]\n"
            f"assert cells == [{cell!r}], cells\n"
            "decision = fa3_matrix.explain(seqlen_q=512, seqlen_k=512, head_dim=128,"
            f" compute_capability={tuple(low)})\n"
            "assert decision.variant, decision\n"
            "assert 'torch' not in sys.modules\n"
        )
        # Away from the checkout, and isolated (-I), so that only the installed package can be found.
        _run([python, "-I", "-c", code], cwd=temporary)


def _run(command: list[str], cwd: str | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(
            f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )


def _only(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fa3_matrix.build.wheel", description=__doc__)
    parser.add_argument("name", help="a cell such as sm90-cu133, or an arch such as sm90")
    parser.add_argument("--toolkit", help="of an arch's cell; default: the newest of the matrix")
    parser.add_argument("--out", type=Path, default=Path("dist"), help="default: dist")
    options = parser.parse_args(arguments)
    try:
        wheel = build_wheel(cell_name(options.name, options.toolkit), options.out)
    except Fa3Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{wheel} ({wheel.stat().st_size / 1e6:.2f} MB): built, audited, installed and inspected")
    return 0


if __name__ == "__main__":
    sys.exit(main())
