"""Commands without what their extras bring: a sentence, and the exit code of what could not be done."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fa3_matrix._extras import needs


@pytest.mark.parametrize(
    "module, arguments, package, extras, code",
    [
        ("gate", "prove x", "numpy", "build,bench,gate", 2),
        ("build.all_cells", "sm90-cu133", "filelock", "build", 1),
        ("build", "audit", "elftools", "build", 1),
    ],
)
def test_a_missing_package_is_a_sentence_that_names_the_extras(
    module: str, arguments: str, package: str, extras: str, code: int, tmp_path: Path
) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-c"),
            f"import runpy, sys; sys.modules[{package!r}] = None; "
            f"sys.argv[1:] = {arguments.split()}; "
            f"runpy.run_module('fa3_matrix.{module}', run_name='__main__', alter_sys=True)",
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[1] / "src"),
            "FA3_CACHE_DIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert done.stderr == (
        f"error: this needs the Python package {package!r}, which is not installed; "
        f"`pip install 'fa3-matrix[{extras}]'` brings it\n"
    )


def test_torch_has_an_extra_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, needs("bench", 2):
        raise ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")
    assert ended.value.code == 2
    assert "package 'torch', which" in capsys.readouterr().err


def test_a_module_of_ours_that_is_missing_is_no_extra() -> None:
    with pytest.raises(ModuleNotFoundError), needs("bench", 2):
        import fa3_matrix.nothing  # noqa: F401


@pytest.mark.parametrize("module", ["bench", "gate", "build.all_cells"])
def test_commands_teach_without_any_extra(module: str) -> None:
    """Isolated, with the standard library and the checkout alone."""
    source = str(Path(__file__).parents[1] / "src")
    done = subprocess.run(
        [
            *(sys.executable, "-I", "-S", "-c"),
            f"import runpy, sys; sys.path.insert(0, {source!r}); sys.argv[1:] = ['--help']; "
            f"runpy.run_module('fa3_matrix.{module}', run_name='__main__', alter_sys=True)",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")
