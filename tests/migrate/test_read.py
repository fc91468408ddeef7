"""Reading headers: names as source code spells them."""

from pathlib import Path

import pytest

from fa3_matrix.errors import ToolkitError
from fa3_matrix.migrate.read import host_compilers, read

from .small_toolkits import Toolkits


def test_versions_are_read_apart(toolkit: Toolkits) -> None:
    model = toolkit()
    assert model.cuda == "12.4"
    assert model.cccl is not None
    assert model.cccl.version == "2.3.2"


def test_a_macro_that_renames_a_function_is_a_name_of_it(toolkit: Toolkits) -> None:
    functions = toolkit().function
    assert functions["cuOpen"].symbol == "cuOpen_v2"
    assert functions["cuInfo"].symbol == "cuInfo_v3"
    assert functions["cuOpen_v2"].symbol == "cuOpen_v2"
    assert functions["cuOpen"].signatures[0].parameters == ("int", "CUplace")


def test_members_of_an_unnamed_union_belong_to_the_struct(toolkit: Toolkits) -> None:
    place = toolkit().record["CUplace"]
    assert [(field.name, field.offset) for field in place.fields] == [
        ("type", 0),
        ("id", 8),
        ("handle", 8),
    ]
    assert (place.size, place.align) == (16, 8)


def test_an_unnamed_struct_that_is_a_member_is_a_record_of_its_own(toolkit: Toolkits) -> None:
    assert [field.name for field in toolkit().record["cudaDesc::res"].fields] == ["width"]


def test_numbers_of_arguments_come_from_defaults_and_overloads(toolkit: Toolkits) -> None:
    functions = toolkit().function
    assert functions["cudaSync"].arities == (0, 1, 2)
    assert functions["cudaPut"].arities == (2, 3)
    assert [signature.generic for signature in functions["cudaPut"].signatures] == [(0,), ()]
    assert functions["cudaPut"].symbol is None


def test_deprecations_have_their_message(toolkit: Toolkits) -> None:
    functions = toolkit().function
    assert functions["cudaOldSync"].deprecated == "use cudaSync"
    assert functions["cudaSync"].deprecated is None


def test_an_opened_namespace_is_inline_and_details_are_left_out(toolkit: Toolkits) -> None:
    model = toolkit()
    assert "cooperative_groups::grid_group" in model.type
    assert "cooperative_groups::this_grid" in model.function
    assert not any("hidden" in name for name in model.function)


def test_constants_and_macros(toolkit: Toolkits) -> None:
    model = toolkit()
    assert model.enumerator["CU_KIND_MAX"].value == 7
    assert model.enumerator["CU_KIND_MAX"].enum == "CUkind_enum"
    assert model.macro["CU_FLAG"].expansion == "0x02"
    assert model.macro["CU_SQUARE"].expansion is None
    assert "cuOpen" not in model.macro


def test_cccl_names_headers_and_what_they_bring_in(toolkit: Toolkits) -> None:
    cccl = toolkit().cccl
    assert cccl is not None
    names = {name.name: name for name in cccl.names}
    assert {"thrust::pair", "thrust::make_pair", "thrust::is_pair_v", "cub::DeviceReduce::Sum"} <= {
        *names
    }
    assert not any("secret" in name for name in names)
    internals = {name.name: name for name in cccl.internals}
    assert {"thrust::detail", "thrust::detail::secret"} == internals.keys()
    assert internals["thrust::detail::secret"].declared_in == ("thrust/pair.h",)
    assert names["thrust::pair"].template_parameters == (2, 2)
    assert names["cub::DeviceReduce::Sum"].signatures[0].arities == range(2, 4)
    assert cccl.visible_from(names["thrust::pair"]) == {"thrust/pair.h", "thrust/vector.h"}
    assert cccl.visible_from(names["thrust::vector"]) == {"thrust/vector.h"}
    assert [macro.name for macro in cccl.macros] == ["THRUST_NODISCARD", "THRUST_VERSION"]
    assert cccl.host_folders == ("thrust",)


def test_internal_headers_are_apart(toolkit: Toolkits) -> None:
    cccl = toolkit({"thrust/detail/secret.h": "#pragma once\n"}).cccl
    assert cccl is not None
    assert cccl.internal_headers == ("thrust/detail/secret.h",)
    assert "thrust/detail/secret.h" not in cccl.headers


def test_cccl_in_a_folder_of_its_own_is_found(toolkit: Toolkits) -> None:
    moved = {f"thrust/{name}": "" for name in ("version.h", "pair.h", "vector.h")}
    cccl = toolkit(moved | {"cccl/thrust/version.h": "#define THRUST_VERSION 300500\n"}).cccl
    assert cccl is not None
    assert (cccl.version, cccl.include, cccl.host_folders) == ("3.5.0", "include/cccl", ())


def test_headers_alone_give_a_model_without_compiler(toolkit: Toolkits) -> None:
    assert toolkit().compiler is None
    assert (
        toolkit({f"thrust/{name}": "" for name in ("version.h", "pair.h", "vector.h")}).cccl is None
    )


def test_host_compilers_are_read_from_their_checks(toolkit: Toolkits) -> None:
    assert toolkit().host_compilers == {
        "gcc": "<= 13",
        "clang": "< 18",
        "msvc": ">= 1910, < 1950",
        "icc": "ICC 15.0 and 20.x",
    }
    with pytest.raises(ToolkitError, match="states no range for gcc"):
        host_compilers("")


def test_a_folder_that_is_no_toolkit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolkitError, match=r"has no include/cuda\.h"):
        read(tmp_path)


def test_headers_with_errors_are_refused(toolkit: Toolkits) -> None:
    with pytest.raises(ToolkitError, match="errors in the headers"):
        toolkit({"cuda_more.h": "#include <somebody_elses.h>\n"})
    with pytest.raises(ToolkitError, match="errors in the headers"):
        toolkit({"cuda_more.h": "".join(f"no_such_type f{n}();\n" for n in range(9))})
