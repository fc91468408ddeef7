"""Names of the standard library that CCCL's headers brought in."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from small import DIFFERENCE

from fa3_matrix import toolkits
from fa3_matrix.errors import ToolkitError
from fa3_matrix.migrate.prove import Unit, compile_unit
from fa3_matrix.migrate.scan import standard

ROWS = list(standard.changes(DIFFERENCE))
# Where the name alone is declared elsewhere too, and what it stands for is not.
_USES = {
    "std::array": "std::array<int, 3> numbers;",
    "std::find": "int *found(int *from, int *to) { return std::find(from, to, 3); }",
}


def test_rows_are_of_the_major_that_dropped_them() -> None:
    assert ROWS
    assert not list(standard.changes(replace(DIFFERENCE, old_cccl="3.0.0")))
    assert not list(standard.changes(replace(DIFFERENCE, new_cccl="2.8.0")))


def test_no_header_both_lost_a_name_and_brings_it() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert not set(row.lost_from) & {row.where, *row.brought_by}
        assert len(set(row.lost_from)) == len(row.lost_from)


@pytest.mark.parametrize(
    "header, third",
    [
        ("vector", False),
        ("stdio.h", False),
        ("sys/time.h", False),
        ("thrust/sort.h", False),
        ("cuda_runtime.h", False),
        ("cooperative_groups.h", False),
        ("device_launch_parameters.h", False),
        ("helper_cuda.h", True),
        ("opencv2/core.hpp", True),
        ("Eigen/Dense", True),
        ("mpi.h", True),
    ],
)
def test_what_a_third_partys_header_brings_is_not_known(header: str, third: bool) -> None:
    assert standard.may_bring(header) is third


@pytest.mark.toolkit
@pytest.mark.parametrize("header", ["thrust/device_ptr.h", "thrust/device_vector.h"])
def test_both_compilers_bear_the_rows_out(header: str, tmp_path: Path) -> None:
    try:
        both = [toolkits.find(version, provision=False) for version in ("12.4", "13.3")]
    except ToolkitError as error:
        pytest.skip(f"needs both toolkits: {error}")
    lines = [_USES.get(row.name, f"using {row.name};") for row in ROWS]
    (tmp_path / "a.cu").write_text("\n".join([f"#include <{header}>", *lines, ""]))
    unit = Unit("a.cu", ("-std=c++17", "-Xcudafe", "--error_limit=1000"), cuda=True)
    old, new = (compile_unit(unit, tmp_path, toolkit) for toolkit in both)
    assert old.succeeded, old.first_error
    text = "\n".join(error.text for error in new.diagnostics)
    refused = {int(line) - 2 for line in re.findall(r"a\.cu\((\d+)\)", text)}
    assert {ROWS[index].name for index in refused} == {
        row.name for row in ROWS if header in row.lost_from
    }
