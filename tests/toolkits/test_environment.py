"""What builds do not see, and which pip and host compiler are used."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from fa3_matrix.errors import ToolkitError
from fa3_matrix.toolkits import clean_environment, scrubbed
from fa3_matrix.toolkits._host_compiler import identify


def test_variables_that_change_a_build_are_dropped() -> None:
    bad = [
        "CPATH",
        "CUDA_HOME",
        "NVCC_APPEND_FLAGS",
        "NVCC_PREPEND_FLAGS",
        "CUDACXX",
        "LIBRARY_PATH",
    ]
    env = {**dict.fromkeys(bad, "x"), "PATH": "/bin", "CC": "gcc", "FA3_CACHE_DIR": "/c"}
    assert clean_environment(env) == {"PATH": "/bin", "CC": "gcc", "FA3_CACHE_DIR": "/c"}
    assert scrubbed(env) == sorted(bad)


def test_default_is_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPATH", "/some/include")
    assert "CPATH" in scrubbed()
    assert clean_environment() == {k: v for k, v in os.environ.items() if k not in scrubbed()}


def test_pip_is_found_where_the_interpreter_has_none(tmp_path: Path) -> None:
    """As in uv's environments; PATH offers nothing either, so the interpreter it was made from must."""
    venv.create(tmp_path / "bare", with_pip=False)
    libraries = [str(Path(module.__file__).parents[1]) for module in _libraries()]
    code = (
        "import subprocess\nfrom fa3_matrix.toolkits._pip import pip\n"
        "command, env = pip()\n"
        "subprocess.run([*command, 'download', '--help'], env=env, check=True)\n"
    )
    done = subprocess.run(
        [tmp_path / "bare/bin/python", "-c", code],
        env={"PATH": "/nonexistent", "PYTHONPATH": os.pathsep.join(libraries)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "pip download" in done.stdout


def _libraries() -> list[object]:
    import filelock

    import fa3_matrix.errors

    return [filelock, fa3_matrix.errors]


def test_what_is_no_compiler_is_named() -> None:
    with pytest.raises(ToolkitError, match="neither GCC nor Clang"):
        identify(sys.executable)
