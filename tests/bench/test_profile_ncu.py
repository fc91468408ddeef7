"""Nsight Compute's command line: that its listings and tables are read as it writes them, and its refusals explained.

A script stands in for ncu, which counts nothing without a GPU.
"""

import csv
import stat
import sys
from pathlib import Path

import pytest

from fa3_matrix.bench.profile import kernel_document, metrics_document
from fa3_matrix.bench.profile_metrics import METRICS, Metric, resolve
from fa3_matrix.bench.profile_ncu import Launch, Ncu, names_in, read_launches
from fa3_matrix.errors import BenchError

VERSION = """\
NVIDIA (R) Nsight Compute Command Line Profiler
Copyright (c) 2018-2025 NVIDIA Corporation
Version 2025.3.1.0 (build 36398880) (public-release)
"""
# What that release said on an H200, lines and columns left out.
GOLDEN = Path(__file__).parent / "golden" / "ncu-2025.3.1"
QUERIED = (GOLDEN / "query.txt").read_text()
LISTED = (GOLDEN / "list.txt").read_text()
TABLE = (GOLDEN / "raw.csv").read_text()


def ncu(folder: Path, *replies: str) -> str:
    """A program that answers as `replies` say, Python that sees the arguments as `arguments`."""
    program = folder / "ncu"
    lines = [f"#!{sys.executable}", "import sys", "from pathlib import Path"]
    lines += ["arguments = sys.argv[1:]", *replies]
    program.write_text("\n".join(lines))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


SAYS_VERSION = f"if arguments == ['--version']: print({VERSION!r}); sys.exit()"
WRITES = "Path(arguments[arguments.index('--log-file') + 1]).write_text({text!r}); sys.exit({code})"


def metric(*names: str) -> Metric:
    return Metric("key", "meaning", "inst", names, "instructions")


def test_the_version_is_read(tmp_path: Path):
    assert Ncu.find(ncu(tmp_path, SAYS_VERSION)).version == "2025.3.1.0"


def test_no_ncu_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(BenchError, match="no Nsight Compute at"):
        Ncu.find(str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("fa3_matrix.bench.profile_ncu._TOOLKITS_OWN", tmp_path / "none")
    with pytest.raises(BenchError, match=r"install it .* or name it by --ncu"):
        Ncu.find()


def test_names_are_the_first_words_of_lines():
    names = names_in(QUERIED)
    assert {"FE_A.TriageCompute.gr__dispatch_count", "dram__bytes_read"} <= names
    # It stands only in what describes another.
    assert "gpu__time_duration_measured_user" in QUERIED
    assert "gpu__time_duration_measured_user" not in names
    assert "sm__maximum_warps_per_active_cycle_pct" in names_in(LISTED)
    assert not any("arch:" in name for name in names_in(LISTED))


@pytest.fixture
def on_h200(tmp_path: Path) -> frozenset[str]:
    """The names that ncu has for an H200."""
    program = ncu(
        tmp_path,
        SAYS_VERSION,
        f"if arguments[0] == '--query-metrics': print({QUERIED!r})",
        f"if arguments[0] == '--list-metrics': print({LISTED!r})",
    )
    return Ncu.find(program).metric_names()


def test_all_that_an_h200_has_is_found_in_either_listing(on_h200: frozenset[str]):
    assert [m.key for m in METRICS if resolve(m, on_h200) is None] == ["shared_load_sectors"]
    occupancy = "sm__maximum_warps_per_active_cycle_pct"
    assert occupancy not in QUERIED
    assert resolve(metric("other__name.sum", occupancy), on_h200) == occupancy
    # Part of a name is no name.
    assert resolve(metric("sm__inst.sum"), on_h200) is None


def test_counters_of_other_chips_are_not_taken_for_this_ones(on_h200: frozenset[str]):
    (tensor,) = [m for m in METRICS if m.key == "tensor_instructions"]
    assert tensor.names[0] in LISTED
    assert resolve(tensor, on_h200) == "sm__inst_executed_pipe_tensor.sum"


def test_what_the_chip_has_not_is_missing_and_never_0(on_h200: frozenset[str]):
    metrics = metrics_document(on_h200)
    for launch in read_launches(TABLE):
        kernel = kernel_document(launch, metrics)
        assert kernel["missing"] == {"shared_load_sectors": "ncu has no such metric for this chip"}
        assert len(kernel["counters"]) == len(METRICS) - 1


def test_units_are_those_that_metrics_state(on_h200: frozenset[str]):
    header, units = list(csv.reader(TABLE.splitlines()[3:5]))
    printed = dict(zip(header, units, strict=True))
    named = {m.key: resolve(m, on_h200) for m in METRICS}
    assert {m.key: printed[name] for m in METRICS if (name := named[m.key])} == {
        m.key: m.unit for m in METRICS if named[m.key]
    }


def test_the_first_name_that_there_is_is_taken():
    both = {"sm__inst_executed_pipe_tc", "sm__inst_executed_pipe_tensor"}
    (tensor,) = [m for m in METRICS if m.key == "tensor_instructions"]
    assert resolve(tensor, both) == "sm__inst_executed_pipe_tc.sum"
    assert resolve(tensor, both - {"sm__inst_executed_pipe_tc"}) == (
        "sm__inst_executed_pipe_tensor.sum"
    )


def test_a_metrics_key_is_its_own_and_its_scale_is_there():
    keys = [m.key for m in METRICS]
    assert len(set(keys)) == len(keys)
    assert {m.scale for m in METRICS if m.scale} <= set(keys)


DECODE = "fa3_fwd_sm90_bf16_d128_m16n64_splitkv"


def test_the_table_is_read_in_order_and_without_its_row_of_units():
    prefill, append, forward, combine = read_launches(TABLE)
    assert prefill.kernel == "fa3_fwd_sm90_bf16_d128_m128n128"
    assert [k.kernel for k in (append, forward, combine)] == [
        f"{DECODE}_append",
        DECODE,
        f"{DECODE}_combine",
    ]
    assert (prefill.block, prefill.grid) == ("(384, 1, 1)", "(132, 1, 1)")
    assert prefill.value("sm__inst_executed_pipe_tensor.sum") == 2236672
    assert forward.value("sm__maximum_warps_per_active_cycle_pct") == 12.5
    assert combine.value("sm__inst_executed_pipe_tensor.sum") == 0


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("0", 0),
        ("12.50", 12.5),
        # As ncu prints them in most locales.
        ("1,116,822,628", 1116822628),
        ("12,553.03", 12553.03),
        ("n/a", "ncu printed 'n/a'"),
        ("nan", "ncu printed 'nan'"),
        ("inf", "ncu printed 'inf'"),
        ("", "ncu printed ''"),
    ],
)
def test_what_was_not_counted_is_not_0(printed: str, value: float | str):
    launch = Launch("fa3_fwd_a", "(128, 1, 1)", "(1, 1, 1)", {"a__b.sum": printed})
    assert launch.value("a__b.sum") == value
    assert launch.value("c__d.max") == "ncu printed no c__d.max"


def test_a_table_without_units_has_its_first_launch():
    with_units = TABLE.splitlines()
    without = [*with_units[:4], *with_units[5:]]
    assert read_launches("\n".join(without)) == read_launches(TABLE)


def test_rows_of_another_width_are_an_error():
    with pytest.raises(BenchError, match="another width than its header of"):
        read_launches(TABLE.replace('"NVIDIA H200",', "", 1))


def test_no_kernel_is_an_error_that_says_what_ncu_says():
    with pytest.raises(BenchError, match=rf"profiled no kernel(?s:.*)1. {DECODE}"):
        read_launches((GOLDEN / "no_kernel.txt").read_text())


def test_counting_asks_for_the_metrics_of_our_kernels_and_keeps_the_log(tmp_path: Path):
    program = ncu(
        tmp_path,
        SAYS_VERSION,
        "Path(__file__).with_name('asked').write_text(' '.join(arguments))",
        WRITES.format(text=TABLE, code=0),
    )
    log = tmp_path / "raw" / "profile-a.csv"
    launches = Ncu.find(program).count(["program", "x"], ["a__b.sum", "c__d.max"], log)
    assert launches == read_launches(TABLE)
    assert log.read_text() == TABLE
    asked = (tmp_path / "asked").read_text()
    assert "--metrics a__b.sum,c__d.max " in asked
    assert "--clock-control none" in asked
    assert "--kernel-name regex:^fa3_" in asked
    assert asked.endswith(" program x")


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters",
            "NVreg_RestrictProfilingToAdminUsers=0",
        ),
        ("==ERROR== LibraryNotLoaded", "NVIDIA_DRIVER_CAPABILITIES=all"),
        (
            "==ERROR== Profiling failed because a driver resource was unavailable.",
            "dcgmi profiling --pause",
        ),
        ("==ERROR== The application returned an error code (2).", r"it says:\n==ERROR== The app"),
    ],
)
def test_what_keeps_counters_from_being_read_is_explained(said: str, advice: str, tmp_path: Path):
    program = ncu(tmp_path, SAYS_VERSION, WRITES.format(text=said, code=1))
    with pytest.raises(BenchError, match=advice):
        Ncu.find(program).count(["program"], ["a__b.sum"], tmp_path / "log")


def test_what_the_program_says_of_its_failure_is_told(tmp_path: Path):
    program = ncu(tmp_path, SAYS_VERSION, "sys.exit('error: no kernel serves this')")
    with pytest.raises(BenchError, match="error: no kernel serves this"):
        Ncu.find(program).count(["program"], ["a__b.sum"], tmp_path / "log")


def test_no_driver_is_told_from_the_listing_on(tmp_path: Path):
    program = ncu(
        tmp_path, SAYS_VERSION, "print('==ERROR== Driver could not be loaded.'); sys.exit(1)"
    )
    with pytest.raises(BenchError, match="ncu finds no NVIDIA driver"):
        Ncu.find(program).metric_names()
