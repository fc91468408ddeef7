"""What the host library asks of the driver, told by a driver that only records.

Each case runs in a process of its own: a process has one driver.
"""

import ctypes
import json
import multiprocessing
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fa3_matrix.errors import BuildError, DriverError, NoKernelError
from fa3_matrix.matrix import Serves
from fa3_matrix.matrix.model import LAYOUTS
from fa3_matrix.ops import builds, library


@pytest.fixture(scope="module")
def fake_driver(tmp_path_factory) -> Path:
    if "libcuda.so" in Path("/proc/self/maps").read_text():
        pytest.skip(
            "this process has loaded the real driver, which can't be replaced; run this file alone"
        )
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler to build the recording driver with")
    made = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    here = Path(__file__).parent
    options = ["-std=c++20", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(made)]
    options.append(f"-I{here.parents[1] / 'cpp'}")
    subprocess.run([compiler, *options, str(here / "fake_driver" / "driver.cpp")], check=True)
    return made


@pytest.fixture
def run(fake_driver, make_build, make_variant, tmp_path):
    """Run calls under the recording driver; return its log's lines, or raise what a call raised."""

    def run(*calls, environment=None, target="sm_90a", **facts):
        fatbin = tmp_path / "kernel.fatbin"
        variant = make_variant(**facts)
        variant = type(variant)(**{**vars(variant), "file": fatbin})
        if not (environment or {}).get("NO_FATBIN"):
            fatbin.write_bytes(b"a fatbin\0")
        build = make_build(target, variant, cell="the-cell")
        context = multiprocessing.get_context("fork")
        receiver, sender = context.Pipe()
        arguments = (fake_driver, build, calls, environment or {}, sender)
        child = context.Process(target=_child, args=arguments)
        child.start()
        log, kind, message = json.loads(receiver.recv())
        child.join()
        if kind:
            raise {e.__name__: e for e in (DriverError, NoKernelError, BuildError, ValueError)}[
                kind
            ](message)
        return log

    return run


def _child(driver, build, calls, environment, sender):
    os.environ.update(environment)
    fake = ctypes.CDLL(str(driver))
    fake.fake_log.restype = ctypes.c_char_p
    error = None
    try:
        handle = builds.create(build)
        library.call("fa3_activate", (ctypes.c_int32 * 1)(handle), 1)
        for call, stream in calls:
            function = f"fa3_{type(call).__name__.removesuffix('Struct').lower()}"
            library.call(function, ctypes.byref(call), ctypes.c_void_p(stream))
    except Exception as caught:
        error = caught
    log = fake.fake_log().decode().splitlines()
    sender.send(json.dumps([log, type(error).__name__ if error else None, str(error)]))


@pytest.fixture
def call(api):
    return api.forward(api.tensor(2, 300, 8, 64, data=0x1000), api.tensor(2, 300, 8, 64))


def test_first_launch_loads_and_second_only_launches(run, call):
    launch = (
        "launch 0x8 grid 48 1 1 block 128 1 1 shared 49152 stream 0xabc q 0x1000 in context of 100"
    )
    assert run((call, 0xABC), (call, 0xABC)) == [
        "retain 100",
        "push 100",
        "capture mode 2",  # relaxed, so that a capture in progress survives the loading
        "load a fatbin",
        "kernel fa3_fwd_sm90_bf16_d64_m128n64",
        "attribute 8 = 49152 on 100",
        "capture mode 0",
        launch,
        "pop",
        "push 100",
        launch,
        "pop",
    ]


def test_a_kernel_of_several_sets_is_loaded_once(run, api):
    each = [api.forward(api.tensor(1, rows, 1, 64), api.tensor(1, 9, 1, 64)) for rows in (64, 65)]
    sets = Serves((0, 6), layouts=("aligned",)), Serves((7, 16), layouts=("aligned",))
    log = run(*((call, 0) for call in each), serves=sets)
    assert log.count("load a fatbin") == 1
    assert len([line for line in log if line.startswith("launch")]) == 2


def test_each_device_in_its_own_context(run, api):
    on = [
        api.forward(*(api.tensor(1, 1, 1, 64, device=device) for _ in "qk")) for device in (1, 0, 1)
    ]
    log = run(*((call, 0) for call in on))
    launches = [line.rpartition(" ")[2] for line in log if line.startswith("launch")]
    assert launches == ["101", "100", "101"]
    assert log.count("load a fatbin") == 1
    assert [line for line in log if line.startswith("attribute")] == [
        "attribute 8 = 49152 on 101",
        "attribute 8 = 49152 on 100",
    ]


def test_empty_tensors_launch_nothing(run, api):
    empty = api.tensor(0, 300, 8, 64), api.tensor(2, 0, 8, 64)
    assert run(*((api.forward(q, q), 0) for q in empty)) == []


@pytest.mark.parametrize(
    "failing,code,wording",
    [
        ("cuInit", 100, r"refused cuInit: FAKE_ERROR \(100\)"),
        ("cuLibraryLoadData", 222, r"PTX is newer .* supports CUDA 13\.0\)\. Update the driver"),
        ("cuKernelGetFunction", 222, r"build the-cell on Fake GPU \(compute capability 9\.0\)"),
        ("cuKernelGetFunction", 209, "holds no code for this GPU"),
        ("cuLibraryGetKernel", 500, "holds no kernel of that name"),
        ("cuLibraryLoadData", 221, "PTX compiler .* is not installed"),
        ("cuKernelSetAttribute", 1, "cuKernelSetAttribute of .* failed"),
        ("cuLaunchKernelEx", 719, "launching fa3_fwd_sm90_bf16_d64_m128n64 on Fake GPU failed"),
    ],
)
def test_driver_errors(run, call, failing, code, wording):
    with pytest.raises(DriverError, match=wording):
        run((call, 0), environment={"FAKE_FAIL": failing, "FAKE_ERROR": str(code)})


def test_gpu_that_no_build_serves(run, call):
    with pytest.raises(
        NoKernelError, match=r"this GPU \(Fake GPU\) of compute capability 12\.0.*\.sm120"
    ):
        run((call, 0), environment={"FAKE_CAPABILITY": "120"})


def test_no_such_device(run, api):
    call = api.forward(api.tensor(1, 1, 1, 64, device=5), api.tensor(1, 1, 1, 64, device=5))
    with pytest.raises(DriverError, match="no CUDA device 5: the driver shows 2"):
        run((call, 0))


def test_missing_fatbin(run, call):
    with pytest.raises(BuildError, match=r"can't read the fatbin .*kernel\.fatbin"):
        run((call, 0), environment={"NO_FATBIN": "1"})


@pytest.fixture
def run_tma(run):
    """As ``run``, with a variant that loads by TMA."""

    def run_tma(*calls, tma_columns=64, environment=None, **facts):
        facts |= {"layouts": ("aligned",), "tma_columns": tma_columns}
        return run(*calls, environment={"FAKE_TMA": "1"} | (environment or {}), **facts)

    return run_tma


def starting(log, word):
    return [line for line in log if line.startswith(word)]


def test_tma_maps_are_made_once_and_the_grid_is_persistent(run_tma, api):
    """Query rows and keys 64 at a time; a batch of 8 has more tiles of 128 rows than the GPU has SMs."""
    q, k = api.tensor(8, 300, 8, 64, data=0x1000), api.tensor(8, 500, 2, 64, data=0x2000)
    v = api.tensor(8, 500, 2, 64, data=0x3000)
    small = api.tensor(1, 300, 8, 64, data=0x1000)
    call = api.forward(q, k, v, out=0x4000)
    log = run_tma((call, 2), (call, 2), (api.forward(small, small, out=0x4000), 2))
    box = "steps 1 1 1 1"
    assert starting(log, "map ") == [
        f"map 0x1000 dtype 9 rank 4 sizes 64 300 8 8 strides 1024 128 307200 box 64 64 1 1 {box}",
        f"map 0x2000 dtype 9 rank 4 sizes 64 500 2 8 strides 256 128 128000 box 64 64 1 1 {box}",
        f"map 0x3000 dtype 9 rank 4 sizes 64 500 2 8 strides 256 128 128000 box 64 64 1 1 {box}",
        f"map 0x4000 dtype 9 rank 4 sizes 64 300 8 8 strides 1024 128 307200 box 64 64 1 1 {box}",
        f"map 0x1000 dtype 9 rank 4 sizes 64 300 8 1 strides 1024 128 128 box 64 64 1 1 {box}",
        f"map 0x4000 dtype 9 rank 4 sizes 64 300 8 1 strides 1024 128 128 box 64 64 1 1 {box}",
    ]
    assert [line.split()[3] for line in starting(log, "launch")] == ["132", "132", "24"]
    maps = [line.partition(" ticket")[0] for line in starting(log, "maps")]
    assert maps == [
        *["maps 1000:64 2000:64 3000:64 4000:64"] * 2,
        "maps 1000:64 1000:64 1000:64 4000:64",
    ]
    assert not starting(log, "misaligned")


def test_tma_maps_of_varlen_and_narrow_heads(run_tma, api):
    cu_seqlens = api.tensor(3, dtype=api.INT32, data=16)
    q = api.tensor(300, 4, 40, dtype=api.FP16, data=0x1000)
    empty = api.tensor(0, 4, 40, dtype=api.FP16, data=0)
    call = api.forward(
        q,
        empty,
        kind=api.VARLEN,
        cu_seqlens_q=cu_seqlens,
        cu_seqlens_k=cu_seqlens,
        max_seqlen_q=200,
        out=0x4000,
    )
    log = run_tma((call, 2), dtype="fp16", head_dim=96, tma_columns=32)
    box = "steps 1 1 1 1"
    assert starting(log, "map ") == [
        f"map 0x1000 dtype 6 rank 4 sizes 40 300 4 1 strides 320 80 80 box 32 64 1 1 {box}",
        # Nothing will be loaded through it, so it may name any memory.
        f"map 0x1000 dtype 6 rank 4 sizes 40 1 4 1 strides 80 80 80 box 32 64 1 1 {box}",
        f"map 0x4000 dtype 6 rank 4 sizes 40 300 4 1 strides 320 80 80 box 32 64 1 1 {box}",
    ]


def test_the_map_of_the_output_is_contiguous_whatever_q_is(run_tma, api):
    q = api.tensor(2, 300, 8, 64, strides=(8 * 300 * 128, 128, 300 * 128, 1), data=0x1000)
    log = run_tma((api.forward(q, q, out=0x4000), 2))
    shape = "dtype 9 rank 4 sizes 64 300 8 2 strides"
    own, out = (line.partition(" box")[0] for line in starting(log, "map "))
    assert own == f"map 0x1000 {shape} 256 76800 614400"
    assert out == f"map 0x4000 {shape} 1024 128 307200"


def tickets(log):
    return [int(line.rpartition(" ")[2]) for line in starting(log, "maps")]


def test_a_ticket_belongs_to_a_stream_or_to_one_captured_launch(run_tma, call):
    streams = (0x20, 0x40, 0x20, 0, 0x51, 0x40, 0x51, 0x71, 0)
    found = tickets(run_tma(*((call, stream) for stream in streams)))
    eager = {}
    for stream, ticket in zip(streams, found, strict=True):
        if stream % 2 == 0:
            assert eager.setdefault(stream, ticket) == ticket
    assert len(set(eager.values())) == 3
    captured = [t for s, t in zip(streams, found, strict=True) if s % 2]
    assert len({*captured, *eager.values()}) == 3 + 3
    assert all(0 <= ticket < 16384 for ticket in found)


def test_a_handle_that_stands_for_many_streams_has_no_ticket(run_tma, call):
    assert tickets(run_tma((call, 2))) == [-1]  # CU_STREAM_PER_THREAD


@pytest.mark.parametrize("captured,least", [(0, 4000), (1, 12288)])
def test_without_a_ticket_left_the_order_is_fixed(run_tma, call, captured, least):
    found = tickets(run_tma(*((call, 16 * n + captured) for n in range(14000))))
    given = [ticket for ticket in found if ticket >= 0]
    assert len(set(given)) == len(given)
    assert max(given) < 16384
    assert len(given) >= least
    assert set(found) - set(given) == {-1}


EARLY = "with attribute 6 = 1"  # programmatic stream serialization


def test_kernels_that_wait_for_the_grids_before_start_early(run, run_tma, call):
    log = run_tma((call, 2))
    assert log[[line.startswith("launch") for line in log].index(True) + 1] == EARLY
    assert EARLY not in run((call, 2))
    for other in ({"FAKE_VERSION": "12020"}, {"FAKE_PTX_VERSION": "80"}):
        assert EARLY not in run_tma((call, 2), environment=other)


@pytest.fixture
def run_split(run):
    """As ``run``, with a variant that splits keys."""

    def run_split(*calls, **facts):
        return run(*calls, layouts=LAYOUTS, block_m=16, **facts)

    return run_split


def test_splits_are_combined(run_split, api):
    """4 tiles of 512 key blocks; the second kernel has a CTA for each row of the output."""
    q, k = api.tensor(2, 1, 8, 64, data=0x1000), api.tensor(2, 32768, 2, 64)
    workspace = {"workspace": 0x10000, "workspace_bytes": 1 << 30}
    calls = [(api.forward(q, k, num_splits=splits, **workspace), 0xABC) for splits in (1, 3, 0)]
    log = run_split(*calls)
    name = "fa3_fwd_sm90_bf16_d64_m16n64"
    assert starting(log, "kernel") == [
        f"kernel {name}_combine",
        f"kernel {name}_append",
        f"kernel {name}",
    ]
    grids = [line.split()[3] for line in starting(log, "launch")]
    assert grids[:3] == ["4", "12", "16"]
    assert int(grids[3]) > 100
    assert grids[4] == "16"


def test_a_workspace_that_is_too_small_is_refused(run_split, api):
    """Two splits of 16 rows of 64 floats and an lse."""
    q, k = api.tensor(2, 1, 8, 64), api.tensor(2, 32768, 2, 64)
    short = {"workspace": 0x10000, "workspace_bytes": 2 * 16 * 65 * 4 - 1}
    with pytest.raises(ValueError, match=r"has 8319 bytes, 8320 are needed.*call again"):
        run_split((api.forward(q, k, num_splits=2, **short), 0))


def test_splits_for_ragged_entries_keep_within_a_budget(run_split, api):
    """100 entries of 128 rows: one alone would be split into 32, but all of them are kept for each split."""
    q, k = api.tensor(100, 1, 128, 64), api.tensor(100, 65536, 1, 64)
    lengths = api.tensor(100, dtype=api.INT32)
    call = api.forward(q, k, kind=api.CACHE, seqused_k=lengths, num_splits=0)
    with pytest.raises(ValueError, match="the workspace has 0 bytes") as refused:
        run_split((call, 0))
    needed = int(str(refused.value).partition(" bytes, ")[2].partition(" are")[0])
    assert 10 * 12800 * 65 * 4 < needed <= 64 << 20


def test_append_launches_one_copy(run_split, api):
    new = api.tensor(2, 3, 2, 64)
    cache, lengths = api.tensor(2, 256, 2, 64), api.tensor(2, dtype=api.INT32)
    log = run_split((api.append(cache, new, lengths), 0xABC))
    (launch,) = starting(log, "launch")
    assert launch.startswith("launch 0x8 grid 1 1 1 block 256 1 1 shared 0 stream 0xabc")


def test_appending_no_rows_launches_nothing(run_split, api):
    cache, lengths = api.tensor(2, 256, 2, 64), api.tensor(2, dtype=api.INT32)
    assert run_split((api.append(cache, api.tensor(2, 0, 2, 64), lengths), 0)) == []
