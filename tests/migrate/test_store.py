"""What ships, how it is written, and how fast it is read."""

import dataclasses
import time
from pathlib import Path

import pytest

from fa3_matrix.errors import Fa3Error, ToolkitError
from fa3_matrix.migrate import store
from fa3_matrix.migrate.difference import BrokenCall, Change, Difference, Remedy
from fa3_matrix.migrate.model import Model
from fa3_matrix.migrate.rules import RULES, Proof, Severity
from fa3_matrix.migrate.witness import proved

from .small_toolkits import Toolkits

CHANGE = Change(
    "FN-SIG",
    "cudaGo",
    "function",
    "cuda.h",
    None,
    "int (int)",
    None,
    (1, 2),
    (),
    Remedy("Write cudaRun.", both="cudaRun()"),
    Proof.WITNESS,
    broken_calls=(BrokenCall(1, 0, "int", None, certain=False),),
    lost_from=("a.h",),
)


def test_a_difference_is_read_as_it_was_written() -> None:
    difference = Difference("12.4", "13.3", "2.3.2", "3.5.0", (CHANGE,))
    data = store.dumps(difference)
    assert store.loads(data, Difference, "test") == difference
    assert store.dumps(store.loads(data, Difference, "test")) == data


def test_a_model_is_read_as_it_was_written(toolkit: Toolkits) -> None:
    model = toolkit()
    assert store.loads(store.dumps(model), Model, "test") == model


def test_shipped_models_are_written_alike_again(old: Model) -> None:
    assert store.loads(store.dumps(old), Model, "test") == old


def test_other_files_are_refused() -> None:
    with pytest.raises(Fa3Error, match="not compressed JSON"):
        store.loads(b"no", Difference, "file")


def test_releases_are_in_order() -> None:
    known = store.releases()
    assert {"12.4", "12.9", "13.0", "13.3"} <= {*known}
    assert known == sorted(known, key=store.order)
    assert store.order("12.9") < store.order("12.10")


def test_loading_is_quick() -> None:
    store.load_difference("12.4", "13.3")
    started = time.process_time()
    store.load_difference("12.4", "13.3")
    assert time.process_time() - started < 0.3


def test_another_pair_is_computed_from_the_models() -> None:
    difference = store.load_difference("13.0", "13.3")
    assert (difference.old, difference.new) == ("13.0", "13.3")
    assert not difference.named("cudaThreadExit")


def test_what_cannot_be_loaded_says_why() -> None:
    with pytest.raises(ToolkitError, match=r"no model of CUDA 11\.0: there are 12\.4"):
        store.load_difference("11.0", "13.3")
    with pytest.raises(ToolkitError, match="name the older toolkit first"):
        store.load_difference("13.3", "12.4")
    with pytest.raises(ToolkitError, match=r"there are models of CUDA 12\.4"):
        store.load_model("1.0")


def test_writing_replaces_the_shipped_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "DATA", tmp_path)
    difference = Difference("1.0", "2.0", "a", "b", (CHANGE,))
    store.save_difference(difference)
    store.save_difference(dataclasses.replace(difference, changes=()))
    assert store.load_difference("1.0", "2.0").changes == ()
    assert [path.name for path in tmp_path.iterdir()] == ["difference-1.0-2.0.json.xz"]


def test_the_command_reads_and_compares(
    toolkit: Toolkits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "DATA", tmp_path)
    for root in (toolkit.root(), toolkit.root(edit=("cuda.h", "12040", "13000"))):
        assert store.main(["model", str(root)]) == 0
    assert store.main(["difference", "12.4", "13.0"]) == 0
    assert store.main(["difference", "12.4", "13.1"]) == 1
    assert store.load_difference("12.4", "13.0").old_cccl == "2.3.2"


def test_a_difference_that_is_computed_again_keeps_what_was_proved(
    toolkit: Toolkits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "DATA", tmp_path)
    for edit in (None, ("cuda.h", "CU_KIND_A = 1, ", "")):
        model = dataclasses.replace(toolkit(edit=edit), cuda="13.0" if edit else "12.4")
        store.save_model(model, tmp_path / f"cuda-{model.cuda}.json.xz")
    assert store.main(["difference", "12.4", "13.0"]) == 0
    computed = store.load_difference("12.4", "13.0")
    store.save_difference(proved(computed, frozenset({("ENUM-REMOVED", "CU_KIND_A")})))
    recorded = store.load_difference("12.4", "13.0")
    assert recorded != computed
    assert store.main(["difference", "12.4", "13.0"]) == 0
    assert store.load_difference("12.4", "13.0") == recorded


# Both compilers were given a use of each. The rule that the difference must have; None: it has no break of the name.
@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("cudaDeviceProp::clockRate", "FIELD-REMOVED"),
        ("cudaDeviceProp::computeMode", "FIELD-REMOVED"),
        ("cudaDeviceProp::deviceOverlap", "FIELD-REMOVED"),
        ("cudaDeviceProp::maxTexture1DLinear", "FIELD-REMOVED"),
        ("cudaDevAttrClockRate", None),
        ("cudaThreadSynchronize", "FN-REMOVED"),
        ("cudaLaunchParams", "TYPE-REMOVED"),
        ("cudaLaunchCooperativeKernelMultiDevice", "FN-REMOVED"),
        ("cuLaunchCooperativeKernelMultiDevice", None),
        ("nvrtcGetNVVM", "FN-REMOVED"),
        ("cudaGetDeviceProperties_v2", "FN-SUFFIX"),
        ("cudaGetDeviceProperties", None),
        ("cooperative_groups::this_multi_grid", "FN-REMOVED"),
        ("PFN_cuTensorMapEncodeTiled", "ALIAS-REMOVED"),
        ("PFN_cuTensorMapEncodeTiled_v12000", None),
        ("cudaMemPrefetchAsync", "FN-SIG"),
        ("cudaMemAdvise", "FN-SIG"),
        ("cuCtxCreate", "FN-SIG"),
        ("cudaGraphAddDependencies", "FN-SIG"),
        ("cudaStreamGetCaptureInfo", "FN-SIG"),
        ("cudaMemLocation", None),
        ("cudaMemLocation::id", None),
        ("CUmemLocation::id", None),
        ("cudaKernelNodeParamsV2::func", None),
        ("cudaDevAttrCooperativeMultiDeviceLaunch", "ENUM-REMOVED"),
        ("double4", "DEPRECATED"),
        ("make_double4", None),
        ("texture_fetch_functions.h", "HDR-REMOVED"),
        ("thrust/", "HDR-MOVED"),
        ("nv/", None),
        ("nvPTXCompiler.h", None),
        ("thrust::unary_function", "CCCL-REMOVED"),
        ("cub::Sum", "CCCL-REMOVED"),
        ("cub::TransformInputIterator", "CCCL-REMOVED"),
        ("cub::DeviceReduce::Sum", "CCCL-SIG"),
        ("cub::BlockReduce", "CCCL-SIG"),
        ("cub::BFE", "DEPRECATED"),
        ("thrust::plus", None),
        ("thrust::maximum", None),
        ("thrust::make_tuple", "INCLUDE-TRANSITIVE"),
        ("sm_70", "ARCH-REMOVED"),
        ("sm_75", None),
        ("-static-global-template-stub", "LINK-STUB"),
        ("cudaMemcpyToArray", None),
        ("cudaFuncSetSharedMemConfig", None),
        ("cudaFree", None),
        ("cuMemFreeAsync", None),
        ("cudaLaunchKernel", None),
    ],
)
def test_the_difference_agrees_with_both_compilers(
    difference: Difference, name: str, rule: str | None
) -> None:
    rules = {row.rule for row in difference.named(name)}
    if rule is None:
        assert not {found for found in rules if RULES[found].severity is Severity.BREAK}
    else:
        assert rule in rules
