"""The kernels of tests/cpp/ptx_*.cu, loaded for the current device.

Where there is no toolkit, prebuilt fatbins serve: run tests/cpp/test_ptx_compiles.py elsewhere and bring
build/tests/ptx along.
"""

import functools
import os

import pytest
import torch

from fa3_matrix import toolkits
from fa3_matrix.bench import machine
from fa3_matrix.bench.machine import REQUIRE_GPU
from fa3_matrix.errors import ToolkitError

from ...cpp import ptx_fatbins
from ..cuda_driver import Library


@pytest.fixture(autouse=True, scope="session")
def needs_gpu() -> None:
    """In place of the one in the folder above, which asks for builds too."""
    if reason := machine.why_no_gpu():
        _cannot_run(reason)


@pytest.fixture(params=ptx_fatbins.TOOLKITS, scope="module")
def version(request: pytest.FixtureRequest) -> str:
    """The toolkit that compiled the kernels."""
    return request.param


@pytest.fixture
def ampere(version: str) -> Library:
    return _library(version, "ampere")


@pytest.fixture
def hopper(version: str) -> Library:
    return _library(version, "hopper")


@pytest.fixture
def wgmma(version: str) -> Library:
    return _library(version, "wgmma")


def _library(version: str, part: str) -> Library:
    here = torch.cuda.get_device_capability()
    # SASS runs within its major version, and the features of 90a on 9.0 alone.
    if here != (9, 0) and not (part == "ampere" and here[0] == 8):
        _cannot_run(f"no image of {part} for compute capability {here[0]}.{here[1]}")
    if not ptx_fatbins.is_current(version, part):
        try:
            toolkit = toolkits.find(version, provision=False)
        except ToolkitError as error:
            name = ptx_fatbins.fatbin(version, part).relative_to(ptx_fatbins.ROOT)
            _cannot_run(
                f"{name} is not of these sources, and there is nothing to build it: {error}"
            )
        ptx_fatbins.build(toolkit, part)
    return _load(version, part)


@functools.cache
def _load(version: str, part: str) -> Library:
    return Library(ptx_fatbins.fatbin(version, part).read_bytes())


def _cannot_run(reason: str) -> None:
    """Skip with a sentence; fail instead when FA3_REQUIRE_GPU=1."""
    if os.environ.get(REQUIRE_GPU) == "1":
        pytest.fail(f"{REQUIRE_GPU}=1, but {reason}")
    pytest.skip(reason)
