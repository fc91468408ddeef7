"""Which toolkit is found, and what is said when none is."""

import subprocess
import sys
from pathlib import Path

import pytest

from fa3_matrix.errors import ToolkitError
from fa3_matrix.toolkits import _debian, find, report, text, torch_headers
from fa3_matrix.toolkits.__main__ import main

from .conftest import needs_apt

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture(autouse=True)
def _no_toolkit_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("12_4", "13_3"):
        monkeypatch.delenv(f"FA3_CUDA_{version}_ROOT", raising=False)
    if Path("/usr/local/cuda-12.4").exists() or Path("/usr/local/cuda-13.3").exists():
        pytest.skip("this machine has a toolkit installed, which these tests would find")


@pytest.mark.parametrize("version", ["12", "cu124", "12.4.1", ""])
def test_malformed_version(version: str) -> None:
    with pytest.raises(ValueError, match="expected major"):
        find(version)


def test_version_that_cannot_be_provisioned() -> None:
    with pytest.raises(
        ToolkitError, match=r"CUDA 12\.8 .*only 12\.4 and 13\.3 can.*FA3_CUDA_12_8_"
    ):
        find("12.8")


def test_missing_and_not_to_be_provisioned(cache: Path) -> None:
    with pytest.raises(ToolkitError, match=r"CUDA 13\.3 is not on this machine\. Ways to have it"):
        find("13.3", provision=False)
    assert not (cache / "downloads").exists()


def test_environment_names_no_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvcc").touch()
    monkeypatch.setenv("FA3_CUDA_12_4_ROOT", str(tmp_path))
    with pytest.raises(
        ToolkitError, match=r"FA3_CUDA_12_4_ROOT=.*no bin/ptxas.*no include/cuda\.h"
    ):
        find("12.4")


def test_environment_names_a_toolkit_that_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bin/nvcc", "bin/ptxas", "include/cuda.h", "include/cuda_runtime.h"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setenv("FA3_CUDA_12_4_ROOT", str(tmp_path))
    with pytest.raises(ToolkitError, match=r"bin/nvcc does not run: Permission denied"):
        find("12.4")


@pytest.mark.usefixtures("wheelhouse")
def test_offline_13_3_names_the_package_and_the_ways(cache: Path) -> None:
    with pytest.raises(ToolkitError) as caught:
        find("13.3")
    message = str(caught.value)
    assert "could not download nvidia-cuda-nvcc==13.3.73" in message
    assert "FA3_CUDA_13_3_ROOT" in message
    assert "/usr/local/cuda-13.3" in message
    assert "FA3_DEBIAN_MIRROR" not in message
    assert not (cache / "trees").exists()


@needs_apt
def test_offline_12_4_names_the_package_and_the_three_ways(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FA3_DEBIAN_MIRROR", "file:/no/such/mirror")
    with pytest.raises(ToolkitError) as caught:
        find("12.4")
    message = str(caught.value)
    assert "could not download nvidia-cuda-toolkit=12.4.131~12.4.1-2" in message
    for way in (
        "(1) set FA3_CUDA_12_4_ROOT",
        "(2) install CUDA 12.4 at",
        "(3) let",
        "set FA3_DEBIAN_",
    ):
        assert way in message
    assert not (cache / "trees").exists()


@needs_apt
def test_apt_without_a_debian_mirror(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine whose apt is not Debian's: only sources of another distribution and of third parties."""
    sources = tmp_path / "sources.list"
    sources.write_text(
        "deb http://archive.example/ubuntu noble main universe\n"
        "deb http://apt.example/tools bookworm-tools main\n"
    )
    _apt_sources(sources, monkeypatch)
    monkeypatch.delenv("FA3_DEBIAN_MIRROR", raising=False)
    assert _debian.mirrors() == []
    with pytest.raises(
        ToolkitError, match=r"nvidia-cuda-toolkit=.*none configured.*\(1\).*\(2\).*\(3\)"
    ):
        find("12.4")
    assert not (cache / "trees").exists()


@needs_apt
def test_mirror_comes_from_the_machines_own_apt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "sources.list"
    sources.write_text(
        "deb http://mirror.example/debian bookworm main\n"
        "deb http://mirror.example/debian bookworm-updates main\n"
        "deb http://security.example/debian-security bookworm-security main\n"
        "deb http://second.example/debian stable main\n"
    )
    _apt_sources(sources, monkeypatch)
    monkeypatch.delenv("FA3_DEBIAN_MIRROR", raising=False)
    assert sorted(_debian.mirrors()) == [
        "http://mirror.example/debian",
        "http://second.example/debian",
    ]
    monkeypatch.setenv("FA3_DEBIAN_MIRROR", "http://chosen.example/debian")
    assert _debian.mirrors() == ["http://chosen.example/debian"]


def _apt_sources(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration = sources.with_name("apt.conf")
    (sources.parent / "lists/partial").mkdir(parents=True)
    configuration.write_text(
        f'Dir::Etc::sourcelist "{sources}";\nDir::Etc::sourceparts "/dev/null";\n'
        f'Dir::State::lists "{sources.parent}/lists";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(configuration))


def test_no_apt_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ToolkitError, match=r"needs `apt-get`, which this machine has not.*\(3\)"):
        find("12.4")


def test_torch_include_without_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FA3_TORCH_INCLUDE", str(tmp_path))
    with pytest.raises(ToolkitError, match=r"holds no torch/csrc/stable/library\.h"):
        torch_headers()


def test_torch_include_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch/csrc/stable").mkdir(parents=True)
    (tmp_path / "torch/csrc/stable/library.h").touch()
    monkeypatch.setenv("FA3_TORCH_INCLUDE", str(tmp_path))
    assert torch_headers() == tmp_path


def test_report_of_missing_toolkits() -> None:
    states = report()
    assert [state.version for state in states] == ["12.4", "13.3"]
    assert all(state.root is None and "not on this machine" in state.problem for state in states)
    assert "missing: CUDA 12.4 is not on this machine" in text(states)
    assert states[0].as_dict() == {"version": "12.4", "problem": states[0].problem}


@pytest.mark.usefixtures("wheelhouse")
def test_command_line_fails_with_the_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["torch-headers"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "error: could not download torch==2.10.0" in captured.err


def test_import_needs_no_command_line_library() -> None:
    """Runs inside pip's isolated build environments, which have packaging and filelock only."""
    code = (
        "import sys; sys.modules.update(rich=None, typer=None, torch=None)\n"
        "import fa3_matrix.toolkits.__main__\n"
    )
    src = Path(_debian.__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(src)})
