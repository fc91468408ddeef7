"""The wheel path: the in-tree backend, a wheel without a cell, a cell's wheel and what makes one unfit."""

import importlib.util
import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from fa3_matrix.build import wheel
from fa3_matrix.errors import BuildError, MatrixError

ROOT = Path(__file__).parents[1]
CELL = {"cmake.define.FA3_CELL": "sm90-cu133"}
LIBRARIES = tuple(f"fa3_matrix/lib/libfa3_{part}.so" for part in ("host", "torch", "direct"))
NAME = "fa3_matrix-0.1.0+cu133.sm90-py3-none-manylinux_2_35_x86_64.whl"


@pytest.fixture
def backend() -> ModuleType:
    path = ROOT / "ci" / "backend" / "fa3_backend.py"
    spec = importlib.util.spec_from_file_location("fa3_backend", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_without_a_cell_nothing_native_is_asked_for(backend: ModuleType):
    assert backend.get_requires_for_build_wheel() == []
    assert backend._with_cell(None) is None
    assert backend.dynamic_metadata({}, {}) == {"version": backend.VERSION}


def test_a_cell_labels_the_version_and_has_its_own_folder(backend: ModuleType):
    settings = backend._with_cell(CELL)
    assert settings["wheel.cmake"] == "true"
    assert settings["build-dir"] == "build/wheel/sm90-cu133"
    version = f"{backend.VERSION}+cu133.sm90"
    assert backend.dynamic_metadata({}, {}) == {"version": version}


def test_a_user_may_choose_the_build_folder(backend: ModuleType):
    assert backend._with_cell(CELL | {"build-dir": "elsewhere"})["build-dir"] == "elsewhere"


def test_building_a_cell_asks_for_tools_and_no_torch(backend: ModuleType):
    requires = backend.get_requires_for_build_wheel(CELL)
    assert any(requirement.startswith("cmake") for requirement in requires)
    assert not any("torch" in requirement or "nvidia" in requirement for requirement in requires)


def test_a_twin_is_never_shipped(backend: ModuleType):
    with pytest.raises(SystemExit, match="never shipped"):
        backend._with_cell({"cmake.define.FA3_CELL": "sm80-cu133-on-sm90"})


def test_an_editable_install_refuses_a_cell_and_says_what_to_do(backend: ModuleType):
    with pytest.raises(SystemExit, match="FA3_BUILD"):
        backend.get_requires_for_build_editable(CELL)


def test_the_installed_package_depends_on_nothing():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == []


def test_wheel_without_a_cell_is_pure_and_holds_the_package(tmp_path: Path):
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-w", str(tmp_path), str(ROOT)], check=True, capture_output=True)
    (path,) = tmp_path.glob("*.whl")
    assert path.name == "fa3_matrix-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    assert "fa3_matrix/report/templates/report.html.j2" in names
    assert "fa3_matrix/toolkits/pins.toml" in names
    assert not [name for name in names if name.endswith((".so", ".fatbin", ".pyc"))]


def _write(
    path: Path,
    files: tuple[str, ...] = LIBRARIES,
    fatbins: tuple[str, ...] = ("v.fatbin",),
    padding: int = 0,
) -> Path:
    folder = "fa3_matrix/cells/sm90-cu133"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            f"{folder}/manifest.json", json.dumps({"variants": [{"file": "v.fatbin"}]})
        )
        for name in (*files, *(f"{folder}/{fatbin}" for fatbin in fatbins)):
            archive.writestr(name, b"\0" * padding)
    return path


@pytest.mark.parametrize(
    "asked, cell",
    [
        (("sm90",), "sm90-cu133"),
        (("sm100", "12.4"), "sm100-cu124"),
        (("sm80-cu124",), "sm80-cu124"),
    ],
)
def test_a_wheel_is_asked_for_by_cell_or_by_arch(asked: tuple[str, ...], cell: str):
    assert wheel.cell_name(*asked) == cell


@pytest.mark.parametrize("asked", [("sm70",), ("sm90", "11.8"), ("sm90-cu124", "13.3")])
def test_what_is_not_in_the_matrix_has_no_wheel(asked: tuple[str, ...]):
    with pytest.raises(MatrixError):
        wheel.cell_name(*asked)


def test_a_fit_wheel(tmp_path: Path):
    wheel.check_contents(_write(tmp_path / NAME), "sm90-cu133")


@pytest.mark.parametrize(
    "name, written, message",
    [
        ("fa3_matrix-0.1.0-cp311-cp311-linux_x86_64.whl", {}, "py3-none-manylinux"),
        (NAME, {"files": (*LIBRARIES, "fa3_matrix.libs/libcuda-1.so.1")}, "libcuda"),
        (NAME, {"files": ()}, "and no other"),
        (NAME, {"fatbins": ("v.fatbin", "stray.fatbin")}, "stray.fatbin"),
        (NAME, {"fatbins": ()}, "v.fatbin"),
        (NAME, {"padding": 3_000_000}, "budget is 5000000"),
    ],
)
def test_what_makes_a_wheel_unfit(
    tmp_path: Path, name: str, written: dict[str, object], message: str
):
    path = _write(tmp_path / name, **written)  # type: ignore[arg-type]
    with pytest.raises(BuildError, match=message):
        wheel.check_contents(path, "sm90-cu133")


def test_a_wheel_of_another_cell_is_unfit(tmp_path: Path):
    with pytest.raises(BuildError, match=r"sm80-cu133/manifest\.json"):
        wheel.check_contents(_write(tmp_path / NAME), "sm80-cu133")


@pytest.mark.toolkit
def test_a_cells_wheel_for_real(tmp_path: Path):
    """Isolated build, auditwheel, install in a clean environment, import and inspect."""
    path = wheel.build_wheel("sm90-cu133", tmp_path)
    assert path.name.startswith("fa3_matrix-0.1.0+cu133.sm90-py3-none-manylinux")
