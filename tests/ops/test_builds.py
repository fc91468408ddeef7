"""Which builds a process has and uses."""

import json
import os

import pytest

import fa3_matrix
from fa3_matrix.errors import BuildError
from fa3_matrix.matrix import Serves
from fa3_matrix.ops import builds

WHOLE = Serves(layouts=("aligned", "unaligned")).as_json()


def write_build(folder, cell="sm90-cu133", target="sm_90a", toolkit="13.3", twin_of=None):
    low, high = builds.Target.parse(target).capability_range()
    variant = {
        "name": f"fa3_fwd_{cell[:4]}_bf16_d64_m128n64",
        "file": "kernel.fatbin",
        "dtype": "bf16",
        "head_dim": 64,
        "block_m": 128,
        "block_n": 64,
        "threads": 128,
        "dynamic_shared_bytes": 49152,
        "tma_columns": 0,
        "splits_keys": 0,
        "serves": [WHOLE],
        "candidate": "",
    }
    manifest = {
        "schema": 1,
        "cell": cell,
        "arch": cell[:4],
        "target": target,
        "toolkit": {"version": toolkit, "nvcc": "13.3.73"},
        "twin_of": twin_of,
        "forward_abi": builds.library.load().fa3_forward_abi_version(),
        "capability_range": [low, high],
        "variants": [variant],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture(autouse=True)
def default_builds(monkeypatch):
    monkeypatch.delenv("FA3_BUILD", raising=False)
    yield
    monkeypatch.undo()
    monkeypatch.delenv("FA3_BUILD", raising=False)
    builds._active.builds, builds._active.told = None, False


@pytest.fixture
def packaged(tmp_path, monkeypatch):
    """Make tmp_path the installed package, outside any checkout."""
    monkeypatch.setattr(builds.library, "PACKAGE", tmp_path / "site" / "fa3_matrix")
    return tmp_path / "site" / "fa3_matrix" / "cells"


def test_packaged_in_order_of_preference(packaged):
    write_build(packaged / "ptx", "sm100-cu124", "compute_90", "12.4")
    write_build(packaged / "old", "sm90-cu124", toolkit="12.4")
    write_build(packaged / "new", "sm90-cu133")
    write_build(packaged / "twin", "sm80-cu133-on-sm90", "sm_90", twin_of="sm80-cu133")
    cells = [build.cell for build in fa3_matrix.available_builds()]
    assert cells == ["sm90-cu133", "sm90-cu124", "sm100-cu124"]


@pytest.mark.usefixtures("packaged")
def test_nothing_packaged():
    assert fa3_matrix.available_builds() == ()


def test_environment_replaces_packaged(packaged, tmp_path, monkeypatch):
    write_build(packaged / "new")
    ptx = write_build(tmp_path / "ptx", "sm100-cu124", "compute_90", "12.4")
    # A cell's binary folder holds its build in fa3/.
    cell = write_build(tmp_path / "cell" / "fa3", "sm80-cu124", "sm_80", "12.4").parent
    monkeypatch.setenv("FA3_BUILD", os.pathsep.join(map(str, (ptx, cell))))
    found = fa3_matrix.available_builds()
    assert [build.cell for build in found] == ["sm100-cu124", "sm80-cu124"]
    assert found[1].path == cell / "fa3"
    assert found[0].runs_on((12, 0))
    assert not found[1].runs_on((9, 0))


def test_use_build_as_function_and_context(packaged, tmp_path):
    write_build(packaged / "new")
    a, b = write_build(tmp_path / "a", "a"), write_build(tmp_path / "b", "b")

    def used():
        return [build.cell for build in builds.active_builds()]

    assert used() == ["sm90-cu133"]
    with fa3_matrix.use_build(a) as inside:
        assert used() == ["a"]
        assert [build.cell for build in inside.builds] == ["a"]
        with fa3_matrix.use_build(b, a):
            assert used() == ["b", "a"]
        assert used() == ["a"]
    assert used() == ["sm90-cu133"]
    fa3_matrix.use_build(b)
    assert used() == ["b"]
    fa3_matrix.use_build()
    assert used() == ["sm90-cu133"]


def test_use_build_takes_what_has_a_path(tmp_path):
    class FromTheBuildStage:
        path = write_build(tmp_path / "a", "a")

    with fa3_matrix.use_build(FromTheBuildStage()) as inside:
        assert inside.builds[0].path == tmp_path / "a"


def test_switching_reuses_handles_until_rebuilt(tmp_path):
    folder = write_build(tmp_path / "a", "a")
    with fa3_matrix.use_build(folder) as first:
        before = builds.handle(first.builds[0])
    with fa3_matrix.use_build(folder) as again:
        assert builds.handle(again.builds[0]) == before
    os.utime(folder / "manifest.json", ns=(1, 1))
    with fa3_matrix.use_build(folder) as rebuilt:
        assert builds.handle(rebuilt.builds[0]) != before


def test_failed_switch_changes_nothing(tmp_path):
    a = write_build(tmp_path / "a", "a")
    with fa3_matrix.use_build(a):
        with pytest.raises(BuildError, match=r"nowhere is not a build: it has no manifest\.json"):
            fa3_matrix.use_build(tmp_path / "nowhere")
        assert [build.cell for build in builds.active_builds()] == ["a"]


@pytest.mark.parametrize(
    "key,value",
    [("variants", [{}]), ("target", "sm90"), ("toolkit", None), ("capability_range", [[9, 0]])],
)
def test_malformed_manifest(tmp_path, key, value):
    file = write_build(tmp_path / "a") / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {key: value}))
    with pytest.raises(BuildError, match="not a manifest of this version"):
        builds.Build.read(file.parent)


@pytest.mark.usefixtures("packaged")
def test_a_kernel_of_several_sets(tmp_path):
    file = write_build(tmp_path / "a") / "manifest.json"
    manifest = json.loads(file.read_text())
    (entry,) = manifest["variants"]
    sets = [
        WHOLE | {"log2_seqlen_q": [11, 16]},
        WHOLE | {"log2_seqlen_q": [7, 10], "masks": ["full"]},
    ]
    entry["serves"] = sets
    file.write_text(json.dumps(manifest))
    build = builds.Build.read(file.parent)
    layouts = ("aligned", "unaligned")
    (variant,) = build.variants
    assert variant.serves == (
        Serves(log2_seqlen_q=(11, 16), layouts=layouts),
        Serves(log2_seqlen_q=(7, 10), masks=("full",), layouts=layouts),
    )
    with fa3_matrix.use_build(file.parent):
        for seqlen_q, causal, served in (
            (2000, True, True),
            (999, False, True),
            (999, True, False),
        ):
            decision = fa3_matrix.explain(
                seqlen_q=seqlen_q,
                seqlen_k=2000,
                head_dim=64,
                causal=causal,
                compute_capability="9.0",
            )
            assert (decision.variant is not None) == served
    entry["serves"] = [*sets, sets[1]]
    file.write_text(json.dumps(manifest))
    with pytest.raises(BuildError, match="both serve"):
        fa3_matrix.use_build(file.parent)


@pytest.mark.parametrize(
    ("serves", "wording"),
    [
        ([], "fa3_fwd_sm90_bf16_d64_m128n64: serves is empty"),
        ({"masks": ["full"]}, "TypeError"),  # as manifests had it: one set, bare
        ([{"masks": ["full"]}], "log2_seqlen_q"),
        ([WHOLE | {"masks": ["odd"]}], r"masks \['odd'\]"),
        ([WHOLE | {"layouts": ["odd"]}], r"layouts \['odd'\]"),
    ],
)
def test_malformed_sets(tmp_path, serves, wording):
    file = write_build(tmp_path / "a") / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["variants"][0]["serves"] = serves
    file.write_text(json.dumps(manifest))
    with pytest.raises(BuildError, match=f"not a manifest of this version .*{wording}"):
        builds.Build.read(file.parent)


def test_kernels_of_another_abi_are_refused(tmp_path):
    file = write_build(tmp_path / "a") / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"forward_abi": 1}))
    passed = builds.library.load().fa3_forward_abi_version()
    wording = (
        "build sm90-cu133: its kernels take parameters of version 1, "
        f"this host library passes version {passed};"
    )
    with pytest.raises(BuildError, match=wording):
        fa3_matrix.use_build(file.parent)


def test_missing_host_library(tmp_path, monkeypatch):
    monkeypatch.setenv("FA3_HOST_LIBRARY", str(tmp_path / "libfa3_host.so"))
    with pytest.raises(BuildError, match=r"host library was not found .*FA3_HOST_LIBRARY"):
        builds.library.find()
