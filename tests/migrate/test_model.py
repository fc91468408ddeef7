"""What a model answers about itself."""

from hypothesis import given
from hypothesis import strategies as st

from fa3_matrix.migrate.model import Cccl, CcclName, Function, Model, Signature


def signature(parameters: int, required: int) -> Signature:
    return Signature("int", ("int",) * parameters, required)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=4))
def test_a_call_has_a_number_of_arguments_of_some_overload(counts: list[tuple[int, int]]) -> None:
    overloads = [signature(most, min(few, most)) for few, most in counts]
    function = Function("f", "f.h", None, tuple(overloads))
    expected = {n for few, most in counts for n in range(min(few, most), most + 1)}
    assert function.arities == tuple(sorted(expected))


def test_a_name_is_visible_from_headers_that_read_where_it_is_declared() -> None:
    closures = {"a.h": ("inner.h",), "b.h": (), "inner.h": ()}
    cccl = Cccl("2.3.2", "include", ("thrust",), ("a.h", "b.h", "inner.h"), (), (), closures)
    assert cccl.visible_from(CcclName("cub::X", "type", ("inner.h",))) == {"a.h", "inner.h"}
    assert cccl.visible_from(CcclName("cub::Y", "type", ("b.h",))) == {"b.h"}


def test_false_alarms_of_a_naive_reader_are_none(old: Model, new: Model) -> None:
    """Members that only moved into an unnamed union."""
    for record, field in (
        ("CUmemLocation", "id"),
        ("cudaMemLocation", "id"),
        ("cudaKernelNodeParamsV2", "func"),
    ):
        for model in (old, new):
            assert field in {member.name for member in model.record[record].fields}


def test_versions_of_cuda_and_cccl_are_apart(old: Model, new: Model) -> None:
    assert (old.cuda, new.cuda) == ("12.4", "13.3")
    assert old.cccl is not None
    assert new.cccl is not None
    assert (old.cccl.version, new.cccl.version) == ("2.3.2", "3.5.0")


def test_layouts(old: Model, new: Model) -> None:
    sizes = [
        (model.record["cudaDeviceProp"].size, model.record["CUtensorMap"].align)
        for model in (old, new)
    ]
    assert sizes == [(1032, 64), (1008, 128)]


def test_renaming_macros(old: Model, new: Model) -> None:
    symbols = [model.function["cuCtxCreate"].symbol for model in (old, new)]
    assert symbols == ["cuCtxCreate_v2", "cuCtxCreate_v4"]
    assert old.function["cudaStreamGetCaptureInfo"].arities == (2, 3, 4, 5, 6)
    assert new.function["cudaStreamGetCaptureInfo"].arities == (2, 3, 4, 5, 6, 7)


def test_compilers(old: Model, new: Model) -> None:
    assert old.compiler is not None
    assert new.compiler is not None
    assert (old.compiler.ptx_isa, new.compiler.ptx_isa) == ("8.4", "9.3")
    assert (old.compiler.default_arch, new.compiler.default_arch) == ("sm_52", "sm_75")
    assert (old.compiler.internal_stubs, new.compiler.internal_stubs) == (False, True)
    assert (old.compiler.hidden_entities, new.compiler.hidden_entities) == (False, True)
    added = {option.long for option in new.compiler.options} - {
        option.long for option in old.compiler.options
    }
    assert {"--compress-mode", "--static-global-template-stub", "--relocatable-link"} <= added
