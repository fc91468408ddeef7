"""Small toolkits, and the models and the difference that ship."""

import pytest

from fa3_matrix.migrate.difference import Difference
from fa3_matrix.migrate.model import Model
from fa3_matrix.migrate.store import load_difference, load_model

from .small_toolkits import Toolkits


@pytest.fixture(scope="session")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Toolkits:
    """Makes and reads toolkits of a few lines."""
    return Toolkits(tmp_path_factory.mktemp("toolkits"))


@pytest.fixture(scope="session")
def old() -> Model:
    """CUDA 12.4."""
    return load_model("12.4")


@pytest.fixture(scope="session")
def new() -> Model:
    """CUDA 13.3."""
    return load_model("13.3")


@pytest.fixture(scope="session")
def difference() -> Difference:
    """From 12.4 to 13.3, as it ships."""
    return load_difference("12.4", "13.3")
