import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from fa3_matrix import matrix
from fa3_matrix.gate import __main__


@pytest.fixture(scope="session", autouse=True)
def _little_to_collect() -> Iterator[None]:
    """statsmodels collects garbage at every correction, which looks at all that is loaded: 45 ms a call."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results go to a tree of their own."""
    loaded = matrix.load()
    copy = tmp_path / "tree" / "ci" / "matrix.toml"
    copy.parent.mkdir(parents=True)
    copy.write_text(loaded.path.read_text())
    monkeypatch.setattr(__main__, "load", lambda: matrix.load(copy))
    return copy.parent.parent
