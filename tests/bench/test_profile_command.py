"""The profile command: its arms and problems, and a profile from calls to document, with a script in ncu's place."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest

from fa3_matrix import _json
from fa3_matrix.bench import machine, profile, profile_command, session
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.profile_metrics import METRICS
from fa3_matrix.bench.results import Stopwatch, manifest_sha256
from fa3_matrix.bench.session import Session
from fa3_matrix.build import Manifest
from fa3_matrix.errors import BenchError, Fa3Error
from fa3_matrix.matrix import ComputeCapability, Matrix, load

from .conftest import write_build

PREFILL = Problem(
    dtype="bf16", head_dim=128, batch=1, heads_q=16, heads_k=16, seqlen_q=2048, seqlen_k=2048
)
DECODE = Problem(
    dtype="bf16",
    head_dim=128,
    batch=1,
    heads_q=64,
    heads_k=8,
    seqlen_q=1,
    seqlen_k=8192,
    num_splits=0,
)

# Counts every metric as the number of the launch, but fp64, of which none has any; a split call has two kernels.
NCU = f"""\
#!{sys.executable}
import csv, sys
from pathlib import Path
arguments = sys.argv[1:]
if arguments == ["--version"]:
    print("Version 2025.3.1.0 (build 1) (public-release)")
elif arguments[0] == "--query-metrics":
    print(Path(__file__).with_name("listing").read_text())
elif arguments[0] == "--list-metrics":
    print("sm__maximum_warps_per_active_cycle_pct")
else:
    metrics = arguments[arguments.index("--metrics") + 1].split(",")
    kernels = Path(__file__).with_name("kernels").read_text().split()
    with open(arguments[arguments.index("--log-file") + 1], "w", newline="") as file:
        file.write("==PROF== Connected to process 1\\n")
        table = csv.writer(file, quoting=csv.QUOTE_ALL)
        table.writerow(["ID", "Kernel Name", "Block Size", "Grid Size", *metrics])
        table.writerow(["", "", "", "", *["" for _ in metrics]])
        for number, kernel in enumerate(kernels):
            counted = [0 if "_op_d" in m or "local" in m else number for m in metrics]
            table.writerow([number, kernel, "(128, 1, 1)", "(132, 1, 1)", *counted])
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds by cell, which take a while to write."""
    folder = tmp_path_factory.mktemp("builds")
    for cell in ("sm90-cu124", "sm90-cu133", "sm80-cu133-on-sm90", "sm100-cu124"):
        write_build(folder / cell / "fa3", cell)
    return folder


@pytest.fixture
def builds(written: Path, tmp_path: Path) -> dict[str, Path]:
    copies = copytree(written, tmp_path / "cells")
    return {folder.name: folder / "fa3" for folder in sorted(copies.iterdir(), reverse=True)}


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load()


@pytest.fixture
def opened(tmp_path: Path, builds: dict[str, Path], matrix: Matrix) -> Session:
    """A session as an H100 gives it."""
    refused = {"sm80-cu124": (tmp_path, "sm_80 does not run on compute capability 9.0")}
    results = tmp_path / "results"
    return Session(matrix, builds, refused, "", results, None, Stopwatch())


@pytest.fixture
def on_h100(monkeypatch: pytest.MonkeyPatch, opened: Session) -> None:
    monkeypatch.setattr(profile_command, "open_session", lambda _: opened)
    monkeypatch.setattr(machine, "capability", lambda: ComputeCapability(9, 0))


def ncu(folder: Path, *, kernels: list[str], listing: str | None = None) -> str:
    program = folder / "ncu"
    program.write_text(NCU)
    program.chmod(0o755)
    names = "\n".join(name.partition(".")[0] for metric in METRICS for name in metric.names)
    (folder / "listing").write_text(names if listing is None else listing)
    (folder / "kernels").write_text(" ".join(kernels))
    return str(program)


def arguments(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    profile_command.add_parsers(parser.add_subparsers())
    return parser.parse_args(["profile", *given])


def variant_of(folder: Path, problem: Problem) -> str:
    from fa3_matrix.bench.builds import BuildArm

    return BuildArm.open(folder).variant(problem).name


def test_arms_are_by_default_those_of_this_gpus_own_code(opened: Session):
    assert list(profile_command.arms_of([], opened)) == ["sm90-cu133", "sm90-cu124"]


@pytest.mark.usefixtures("on_h100")
def test_arms_by_cell_and_by_folder(opened: Session, builds: dict[str, Path]):
    base = builds["sm90-cu133"]
    arms = profile_command.arms_of([f"base={base.parent}", "sm90-cu133"], opened)
    assert arms == {"base": base.resolve(), "sm90-cu133": base}


@pytest.mark.usefixtures("on_h100")
def test_arms_by_toolkit_are_those_of_run(opened: Session, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine, "gpu_here", lambda matrix: matrix.gpu("h100"))
    arms = profile_command.arms_of(["cu124", "sm80-cu133-on-sm90"], opened)
    assert set(arms) == {"sm90-cu124", "sm80-cu133-on-sm90"}


@pytest.mark.usefixtures("on_h100")
def test_arms_by_folder_alone_need_no_cell_built(
    tmp_path: Path, builds: dict[str, Path], monkeypatch: pytest.MonkeyPatch
):
    asked: list[list[Path]] = []
    opened = profile_command.open_session

    def open_session(arguments: argparse.Namespace) -> Session:
        asked.append(arguments.build)
        return opened(arguments)

    monkeypatch.setattr(profile_command, "open_session", open_session)
    variant = variant_of(builds["sm90-cu133"], PREFILL)
    program = ncu(tmp_path, kernels=[variant])
    base, head = builds["sm90-cu124"], builds["sm90-cu133"]
    for arms in (["--arms", f"base={base},head={head}"], ["--arms", f"base={base}", "cu133"]):
        given = arguments("--ncu", program, "--problem", PREFILL.id, *arms)
        assert given.run(given) == 0
    assert asked == [[base], []]


@pytest.mark.usefixtures("on_h100")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sm90-cu999", "sm90-cu999"),
        ("sm80-cu124", "arm sm80-cu124: sm_80 does not run on compute capability 9.0"),
        ("sm90-cu133 sm90-cu133={}", "two arms are called sm90-cu133"),
        ("a={} a={}", "two arms are called a"),
        ("a=/nowhere", "holds no build"),
    ],
)
def test_arms_that_cannot_be(text: str, reason: str, opened: Session, builds: dict[str, Path]):
    with pytest.raises(Fa3Error, match=reason):
        profile_command.arms_of(text.replace("{}", str(builds["sm90-cu133"])).split(), opened)


@pytest.mark.usefixtures("on_h100")
def test_an_arm_for_another_gpu_is_refused(opened: Session, tmp_path: Path):
    other = write_build(tmp_path / "other", "sm100-cu133")
    with pytest.raises(BenchError, match="arm a: sm_100f does not run on"):
        profile_command.arms_of([f"a={other}"], opened)


@pytest.mark.parametrize(
    ("count", "expected"), [(None, 5), (9, 5), (5, 5), (1, [0]), (2, [0, 4]), (3, [0, 2, 4])]
)
def test_problems_are_spread_over_the_suite(count: int | None, expected: int | list[int]):
    problems = [("gate", number) for number in range(5)]
    found = [number for _, number in profile_command.spread(problems, count)]
    assert found == (list(range(expected)) if isinstance(expected, int) else expected)


def test_no_problem_is_an_error():
    with pytest.raises(BenchError, match="at least 1"):
        profile_command.spread([("gate", PREFILL)], 0)


@pytest.mark.usefixtures("on_h100")
def test_a_profile_from_calls_to_document(
    tmp_path: Path, builds: dict[str, Path], capsys: pytest.CaptureFixture[str]
):
    prefill, decode = (variant_of(builds["sm90-cu133"], p) for p in (PREFILL, DECODE))
    program = ncu(tmp_path, kernels=[prefill, decode, f"{decode}_combine"])
    given = arguments("--ncu", program, "--problem", PREFILL.id, DECODE.id)
    assert given.run(given) == 0
    document = _json.read(tmp_path / "results" / "profile.json")
    assert (document["kind"], document["state"], document["findings"]) == (
        "profile",
        "measured",
        [],
    )
    assert document["cell"] == ["sm90-cu133", "sm90-cu124"]
    assert document["ncu"] == {
        "version": "2025.3.1.0",
        "clock_control": "none",
        "cache_control": "all",
    }
    first, second = document["results"]
    assert [k["kernel"] for k in first["kernels"]["sm90-cu133"]] == [prefill]
    assert [k["role"] for k in second["kernels"]["sm90-cu124"]] == ["forward", "combine"]
    assert first["kernels"]["sm90-cu133"][0]["missing"] == {}
    sha256 = manifest_sha256(builds["sm90-cu133"])
    assert profile.counters(document, DECODE.id, sha256)["instructions"] == 1 + 2
    assert profile.counters(document, DECODE.id, sha256)["achieved_occupancy"] == 1
    raw = tmp_path / "results" / "raw" / "profile-sm90-cu133.csv"
    assert raw.read_text().startswith("==PROF==")
    table = capsys.readouterr().out
    assert "combine" in table
    assert PREFILL.label in table


@pytest.mark.usefixtures("on_h100")
def test_metrics_that_the_chip_lacks_are_missing_and_said_so(
    tmp_path: Path, builds: dict[str, Path], capsys: pytest.CaptureFixture[str]
):
    program = ncu(
        tmp_path, kernels=[variant_of(builds["sm90-cu133"], PREFILL)], listing="sm__inst_executed"
    )
    given = arguments("--ncu", program, "--problem", PREFILL.id, "--arms", "sm90-cu133")
    assert given.run(given) == 0
    document = _json.read(tmp_path / "results" / "profile.json")
    (kernel,) = document["results"][0]["kernels"]["sm90-cu133"]
    assert list(kernel["counters"]) == ["theoretical_occupancy", "instructions"]
    assert len(kernel["missing"]) == len(METRICS) - 2
    assert "missing: bytes of DRAM reads: ncu has no such metric" in capsys.readouterr().out


@pytest.mark.usefixtures("on_h100")
def test_what_must_be_0_and_is_not_fails(tmp_path: Path, builds: dict[str, Path]):
    variant = variant_of(builds["sm90-cu133"], PREFILL)
    program = ncu(tmp_path, kernels=[variant])
    Path(program).write_text(
        NCU.replace('0 if "_op_d" in m or "local" in m', '8 if "_op_dfma" in m')
    )
    given = arguments("--ncu", program, "--problem", PREFILL.id, "--arms", "sm90-cu133")
    assert given.run(given) == 1
    document = _json.read(tmp_path / "results" / "profile.json")
    assert document["state"] == "failed"
    assert document["findings"] == [
        f"sm90-cu133 on {PREFILL.label}: {variant}: 8 fp64 fma of threads"
    ]


@pytest.mark.usefixtures("on_h100")
def test_a_problem_that_an_arm_does_not_serve_is_not_run(tmp_path: Path, builds: dict[str, Path]):
    odd = Problem(
        dtype="bf16", head_dim=128, batch=1, heads_q=16, heads_k=16, seqlen_q=64, seqlen_k=64
    )
    manifest = Manifest.read(builds["sm90-cu133"])
    prefill = variant_of(builds["sm90-cu133"], PREFILL)
    kept = [variant for variant in manifest.variants if variant.name == prefill]
    replace(manifest, variants=kept).write(builds["sm90-cu133"])
    program = ncu(tmp_path, kernels=[prefill])
    given = arguments("--ncu", program, "--problem", odd.id, PREFILL.id, "--arms", "sm90-cu133")
    assert given.run(given) == 0
    first, second = _json.read(tmp_path / "results" / "profile.json")["results"]
    assert first["kernels"] == {}
    assert "serves no" in first["not_run"]["sm90-cu133"]
    assert list(second["kernels"]) == ["sm90-cu133"]


@pytest.mark.usefixtures("on_h100")
def test_no_ncu_is_a_sentence_and_exit_code_2(capsys: pytest.CaptureFixture[str]):
    given = arguments("--ncu", "/nowhere/ncu")
    assert session.main(given.run, given) == 2
    assert "error: no Nsight Compute at /nowhere/ncu" in capsys.readouterr().err
