"""Ceilings and footprints, of work and memory that a CPU really has."""

import random
import tracemalloc

import pytest

from fa3_matrix.bench.ceilings import measure_ceilings
from fa3_matrix.bench.footprint import footprint
from fa3_matrix.bench.timing import HostClock


class TracedMemory:
    """Python's own allocations, which `tracemalloc` counts as PyTorch counts the device's."""

    def reset_peak(self) -> None:
        tracemalloc.reset_peak()

    def held(self) -> int:
        return tracemalloc.get_traced_memory()[0]

    def peak(self) -> int:
        return tracemalloc.get_traced_memory()[1]


@pytest.fixture
def traced():
    tracemalloc.start()
    yield TracedMemory()
    tracemalloc.stop()


def test_ceilings_are_rates_of_what_was_done():
    found = measure_ceilings(random.Random(0), "cpu", HostClock(), size=128, copied_bytes=5_000_000)
    # No CPU reaches a tenth of a petaflop or 10 TB/s, and none is slower than a megaflop or 1 MB/s.
    assert 1e-6 < found.gemm_tflops < 100
    assert 1e-3 < found.copy_gb_per_s < 10_000
    assert found.gemm == "128 x 128 x 128, bf16"
    assert found.copy == "0.01 GB read and written"
    assert set(found.as_json()) == {"gemm_tflops", "copy_gb_per_s", "gemm", "copy"}


def test_a_footprint_tells_workspace_from_output(traced: TracedMemory):
    kept_before = bytearray(3_000_000)

    def call() -> bytearray:
        workspace = bytearray(2_000_000)
        output = bytearray(1_000_000)
        del workspace
        return output

    found = footprint(call, traced)
    assert found.output_bytes == pytest.approx(1_000_000, abs=20_000)
    assert found.workspace_bytes == pytest.approx(2_000_000, abs=20_000)
    assert found.as_json()["peak_bytes"] == found.output_bytes + found.workspace_bytes
    assert len(kept_before) == 3_000_000
