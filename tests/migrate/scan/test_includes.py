"""What is known of the headers that a file includes."""

import pytest

from fa3_matrix.migrate.scan import includes


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
    assert includes.may_bring(header) is third
