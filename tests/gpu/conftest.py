"""Which builds the GPU tests run on, and how much.

pytest tests/gpu -m gpu --fa3-builds build/cells/sm90-cu133:build/cells/sm90-cu124 --fa3-problems 2000
"""

import os
from pathlib import Path

import pytest

from fa3_matrix.bench import machine
from fa3_matrix.bench.machine import REQUIRE_GPU
from fa3_matrix.bench.session import build_folder, why_not_on
from fa3_matrix.build import Manifest
from fa3_matrix.matrix import load

# A session of every test on a developer's machine stays short; the correctness sessions ask for more.
PROBLEMS = 400
PROBLEMS_PER_TEST = 100


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fa3-matrix")
    group.addoption(
        "--fa3-builds",
        help=f"build folders, separated by {os.pathsep!r}; default: FA3_BUILD, else all of build/cells that load here",
    )
    group.addoption("--fa3-problems", type=int, default=PROBLEMS, help="random problems a build")
    group.addoption("--fa3-seed", type=int, default=0, help="of the random problems")


def _folders(config: pytest.Config) -> list[Path]:
    """The builds asked for; those found by themselves only if they run here."""
    stated = config.getoption("--fa3-builds", default=None) or os.environ.get("FA3_BUILD")
    if stated:
        return [build_folder(Path(path)) for path in stated.split(os.pathsep) if path]
    if machine.why_no_gpu():
        return []
    found = sorted((load().root / "build" / "cells").glob("*/fa3/manifest.json"))
    here = machine.capability()
    return [path.parent for path in found if not why_not_on(Manifest.read(path.parent), here)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "build" in metafunc.fixturenames:
        folders = _folders(metafunc.config)
        ids = [Manifest.read(folder).cell for folder in folders]
        # Without builds one case is left, in which `needs_gpu` says why nothing runs.
        metafunc.parametrize("build", folders or [None], ids=ids or ["none"], scope="session")
    if "chunk" in metafunc.fixturenames:
        count = metafunc.config.getoption("--fa3-problems", default=PROBLEMS)
        begins = range(0, count, PROBLEMS_PER_TEST)
        chunks = [range(begin, min(begin + PROBLEMS_PER_TEST, count)) for begin in begins]
        metafunc.parametrize("chunk", chunks, ids=[f"{c.start}-{c.stop - 1}" for c in chunks])


@pytest.fixture(autouse=True, scope="session")
def needs_gpu(pytestconfig: pytest.Config) -> None:
    """Skips with a sentence where nothing can run; fails instead when FA3_REQUIRE_GPU=1."""
    reason = machine.why_no_gpu()
    if not reason and not _folders(pytestconfig):
        reason = "no build that this GPU loads: `nox -s build` builds every cell"
    if reason and os.environ.get(REQUIRE_GPU) == "1":
        pytest.fail(f"{REQUIRE_GPU}=1, but {reason}")
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def build_folders(pytestconfig: pytest.Config) -> list[Path]:
    """All the builds that tests run on."""
    return _folders(pytestconfig)
