"""The command as its users run it: a process, its output and its exit code."""

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from fa3_matrix.matrix import load
from fa3_matrix.matrix.generate import generate

ROOT = Path(__file__).parents[1]


def fa3_matrix(
    *arguments: str | Path, cwd: Path = ROOT, before: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run ``fa3-matrix`` with ``arguments``; ``before`` is Python to run first in its process."""
    code = f"{before}\nfrom fa3_matrix.cli import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def variant(name: str, head_dim: int, content: bytes) -> dict[str, Any]:
    return {
        "name": name,
        "file": f"{name}.fatbin",
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
        "dtype": "bf16",
        "head_dim": head_dim,
        "block_m": 128,
        "block_n": 64,
        "threads": 128,
        "tma_columns": 0,
        "splits_keys": 0,
        "registers": 168,
        "spill_store_bytes": 4,
        "spill_load_bytes": 8,
        "static_shared_bytes": 0,
        "dynamic_shared_bytes": 98304,
        "occupancy": {"ctas_per_sm": 2, "warps_per_sm": 8, "limit": "registers"},
        "sass": {"instructions": 3456, "opcodes": {}, "sha256": ""},
        "serves": [
            {
                "log2_seqlen_q": [0, 16],
                "log2_seqlen_k": [0, 16],
                "masks": ["full", "causal"],
                "layouts": ["aligned", "unaligned"],
            }
        ],
        "candidate": "",
    }


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """A build folder of two variants, in the form that the audit writes; its fatbins hold no code."""
    folder = tmp_path / "sm90-cu133"
    folder.mkdir()
    variants = [variant("fa3_fwd_sm90_bf16_d64_m128n64", 64, b"d64")]
    variants.append(variant("fa3_fwd_sm90_bf16_d128_m128n64", 128, b"d128"))
    for entry in variants:
        (folder / entry["file"]).write_bytes(f"d{entry['head_dim']}".encode())
    manifest = {
        "schema": 1,
        "cell": "sm90-cu133",
        "arch": "sm90",
        "twin_of": None,
        "target": "sm_90a",
        "form": "sass",
        "forward_abi": 2,
        "capability_range": [[9, 0], [9, 0]],
        "toolkit": {"version": "13.3", "nvcc": "13.3.73"},
        "git_revision": "0123456789abcdef",
        "git_dirty": False,
        "variants": variants,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_help_teaches_the_commands_and_the_exit_codes() -> None:
    done = fa3_matrix("--help")
    assert done.returncode == 0
    words = "cells", "generate", "toolkits", "build", "report", "history", "explain", "inspect"
    for word in words:
        assert f" {word} " in done.stdout
    assert "Exit codes: 0 done; 1 it failed" in done.stdout


def test_wrong_usage_is_2() -> None:
    done = fa3_matrix("cells", "--yaml")
    assert done.returncode == 2
    assert "No such option: --yaml" in done.stderr


def test_cells_as_json_is_one_line_that_a_ci_matrix_can_include() -> None:
    done = fa3_matrix("cells", "--json")
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    rows = json.loads(done.stdout)
    assert [row["name"] for row in rows] == [
        cell.name for cell in load(ROOT / "ci/matrix.toml").cells
    ]
    assert all(isinstance(value, str) for row in rows for value in row.values())


def test_cells_lists_twins_on_request() -> None:
    assert "on-sm90" not in fa3_matrix("cells").stdout
    lines = fa3_matrix("cells", "--twins").stdout.splitlines()
    assert [line for line in lines if line.startswith("sm80-cu124-on-sm90") and "twin" in line]


def test_a_broken_matrix_is_1_and_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "matrix.toml").write_text("schema = 1\nspeed = 9\n")
    done = fa3_matrix("cells", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {tmp_path}/ci/matrix.toml:1: missing key 'toolkits'")
    assert "Traceback" not in done.stderr


def test_generate_check_is_3_after_a_drift(tmp_path: Path) -> None:
    for name in ("ci/matrix.toml", "README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    generate(load(tmp_path / "ci" / "matrix.toml"))
    done = fa3_matrix("generate", "--check", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "the generated files are current\n")

    presets = tmp_path / "CMakePresets.json"
    presets.write_text(presets.read_text().replace("Ninja", "Unix Makefiles"))
    done = fa3_matrix("generate", "--check", cwd=tmp_path)
    assert done.returncode == 3
    assert (
        "not what ci/matrix.toml says: CMakePresets.json; run `fa3-matrix generate`" in done.stderr
    )
    assert "Unix Makefiles" in presets.read_text()

    assert fa3_matrix("generate", cwd=tmp_path).stdout == "wrote CMakePresets.json\n"
    assert fa3_matrix("generate", cwd=tmp_path).stdout == "nothing has changed\n"


@pytest.mark.parametrize(
    ("module", "command", "extra"),
    [
        ("typer", "cells", "cli"),
        ("filelock", "build sm90-cu133", "build"),
        ("jinja2", "report", "cli"),
        ("duckdb", "history", "history"),
    ],
)
def test_a_missing_package_is_4_and_names_its_extra(
    module: str, command: str, extra: str, tmp_path: Path
) -> None:
    done = fa3_matrix(
        *command.split(),
        before=f"import sys; sys.modules[{module!r}] = None",
        FA3_CACHE_DIR=str(tmp_path),
    )
    assert done.returncode == 4
    assert done.stderr == (
        f"error: this needs the Python package {module!r}, which is not installed; "
        f"`pip install 'fa3-matrix[{extra}]'` brings it\n"
    )


@pytest.mark.toolkit
def test_toolkits_as_json_and_as_a_table() -> None:
    done = fa3_matrix("toolkits", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["schema"] == 1
    assert {v: t["ptx_isa"] for v, t in found["toolkits"].items()} == {
        "12.4": [8, 4],
        "13.3": [9, 3],
    }
    done = fa3_matrix("toolkits", "cu133")
    assert done.returncode == 0, done.stderr
    assert "13.3" in done.stdout
    assert "12.4" not in done.stdout


def test_an_unknown_toolkit_or_cell_lists_the_known_ones() -> None:
    done = fa3_matrix("toolkits", "11.8")
    assert done.returncode == 1
    assert "no toolkit is named '11.8'; the matrix has 12.4, 13.3" in done.stderr
    done = fa3_matrix("build", "sm75-cu133")
    assert done.returncode == 1
    assert "no cell is named 'sm75-cu133'; the matrix has sm80-cu124" in done.stderr


def test_a_toolkit_that_is_not_there_is_1_without_provisioning(tmp_path: Path) -> None:
    done = fa3_matrix(
        *("toolkits", "13.3", "--no-provision", "--json"),
        FA3_CACHE_DIR=str(tmp_path),
        FA3_CUDA_13_3_ROOT="",
    )
    if Path("/usr/local/cuda-13.3").exists():
        pytest.skip("this machine has CUDA 13.3 of its own")
    assert done.returncode == 1
    assert json.loads(done.stdout)["toolkits"]["13.3"]["problem"]


def test_explain_names_the_variant_and_each_rejection(build: Path) -> None:
    call = ("explain", "--build", build, "--seqlen-q", "1024", "--head-dim", "96")
    done = fa3_matrix(*call, "--capability", "9.0")
    assert done.returncode == 0, done.stderr
    assert "fa3_fwd_sm90_bf16_d128_m128n64 of build sm90-cu133" in done.stdout
    assert "rejected fa3_fwd_sm90_bf16_d64_m128n64: " in done.stdout

    done = fa3_matrix(*call, "--capability", "9.0", "--json")
    decision = json.loads(done.stdout)
    assert decision["schema"] == 1
    assert (decision["cell"], decision["variant"]) == (
        "sm90-cu133",
        "fa3_fwd_sm90_bf16_d128_m128n64",
    )
    assert [r["variant"] for r in decision["rejected"]] == ["fa3_fwd_sm90_bf16_d64_m128n64"]
    grouped = fa3_matrix(*call, "--capability", "9.0", "--group", "8")
    assert "group 8 on" in grouped.stdout


def test_explain_is_5_when_nothing_serves_the_call(build: Path) -> None:
    call = ("explain", "--build", build, "--seqlen-q", "1024", "--head-dim", "96")
    done = fa3_matrix(*call, "--capability", "10.0")
    assert done.returncode == 5
    assert "sm_90a runs only on 9.0, this GPU is 10.0" in done.stdout
    done = fa3_matrix(*call, "--capability", "9.0", "--window", "64", "0")
    assert done.returncode == 5
    assert "serves only the masks full, causal" in done.stdout


def test_explain_refuses_what_no_call_may_have_as_wrong_usage(build: Path) -> None:
    call = ("explain", "--build", build, "--seqlen-q", "1024", "--capability", "9.0")
    done = fa3_matrix(*call, "--head-dim", "12")
    assert done.returncode == 2
    assert "head_dim is 12" in done.stderr


def test_inspect_shows_a_build(build: Path) -> None:
    done = fa3_matrix("inspect", build)
    assert done.returncode == 0, done.stderr
    head, _, *rows = done.stdout.splitlines()
    assert head.startswith(
        "sm90-cu133: sm_90a by nvcc 13.3.73; compute capability 9.0; 2 variants, 0.0 MB; "
        "revision 0123456789ab"
    )
    assert rows[0].split()[:4] == ["fa3_fwd_sm90_bf16_d64_m128n64", "168", "12", "98304"]


def test_inspect_as_json_is_the_manifest(build: Path) -> None:
    shown = json.loads(fa3_matrix("inspect", build, "--json").stdout)
    assert shown["builds"] == [json.loads((build / "manifest.json").read_text())]
    assert shown["damaged"] == []


def test_inspect_reads_a_wheel(build: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "fa3_matrix-0.1.0+cu133.sm90-py3-none-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in build.iterdir():
            archive.write(file, f"fa3_matrix/cells/sm90-cu133/{file.name}")
    done = fa3_matrix("inspect", wheel)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("sm90-cu133: ")


def test_inspect_reads_the_builds_in_use_by_default(build: Path) -> None:
    done = fa3_matrix("inspect", FA3_BUILD=str(build))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("sm90-cu133: ")


def test_inspect_is_1_for_a_damaged_or_missing_fatbin(build: Path) -> None:
    (build / "fa3_fwd_sm90_bf16_d64_m128n64.fatbin").write_bytes(b"other")
    (build / "fa3_fwd_sm90_bf16_d128_m128n64.fatbin").unlink()
    done = fa3_matrix("inspect", build)
    assert done.returncode == 1
    assert (
        "missing or not of the stated sha256: sm90-cu133/fa3_fwd_sm90_bf16_d64_m128n64.fatbin, "
        "sm90-cu133/fa3_fwd_sm90_bf16_d128_m128n64.fatbin; build it again" in done.stderr
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "is not a build"),
        ("broken.whl", "not readable as a wheel"),
        ("empty.whl", "a build is a folder or wheel with a manifest.json"),
    ],
)
def test_inspect_says_what_is_not_a_build(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "broken.whl").write_text("no zip")
    zipfile.ZipFile(tmp_path / "empty.whl", "w").close()
    done = fa3_matrix("inspect", tmp_path / name)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_report_of_nothing_is_written_and_shown(tmp_path: Path) -> None:
    done = fa3_matrix("report", "--build", tmp_path / "build")
    assert done.returncode == 0, done.stderr
    assert "sm90-cu133" in done.stdout
    written = tmp_path / "build" / "report"
    assert f"report: {written / 'index.html'}" in done.stdout
    assert (written / "index.html").is_file()
    done = fa3_matrix("report", "--build", tmp_path / "build", "--json")
    shown, stored = json.loads(done.stdout), json.loads((written / "report.json").read_text())
    assert shown["cells"].keys() == stored["cells"].keys()


def benchmark_run(path: Path, day: int, median: float) -> None:
    """One run of one benchmark, with the keys of pytest-benchmark's JSON that `history` reads."""
    path.write_text(
        json.dumps(
            {
                "datetime": f"2026-11-{day:02}T12:00:00+00:00",
                "version": "5.3.1",
                "commit_info": {"id": "0123456789abcdef", "dirty": True},
                "machine_info": {"gpu": {"gpu": "NVIDIA H200", "uuid": "GPU-1"}},
                "benchmarks": [
                    {
                        "fullname": "cases.py::test_forward[tiny]",
                        "extra_info": {"cell": "sm90-cu133"},
                        "stats": {"median": median, "iqr": 1e-6},
                    }
                ],
            }
        )
    )


def test_history_compares_the_latest_run_and_names_what_it_skipped(tmp_path: Path) -> None:
    for day, median in ((1, 1.0e-3), (2, 100e-6), (3, 102e-6), (4, 110e-6)):
        benchmark_run(tmp_path / f"{day}.json", day, median)
    (tmp_path / "other.json").write_text("[]")
    done = fa3_matrix("history", tmp_path, "--previous", "2")
    assert done.returncode == 0, done.stderr
    _, row = done.stdout.splitlines()
    assert row.split() == [
        *("cases.py::test_forward[tiny]", "sm90-cu133", "NVIDIA", "H200"),
        *("2026-11-04T12:00:00+00:00", "0123456789ab+", "110.0", "1.0", "2", "101.0", "+8.9%"),
    ]
    assert done.stderr.startswith(f"skipped {tmp_path}/other.json: ")

    shown = json.loads(fa3_matrix("history", tmp_path, "--json").stdout)
    assert (shown["schema"], shown["kind"]) == (1, "history")
    assert [len(series["points"]) for series in shown["series"]] == [4]
    assert list(shown["skipped"]) == [f"{tmp_path}/other.json"]


def test_history_of_nothing_is_1_and_says_what_to_do(tmp_path: Path) -> None:
    done = fa3_matrix("history", tmp_path / "nowhere")
    assert done.returncode == 1
    assert "holds no results of pytest-benchmark; `python -m fa3_matrix.bench run`" in done.stderr
    assert fa3_matrix("history", tmp_path, "--previous", "0").returncode == 2
