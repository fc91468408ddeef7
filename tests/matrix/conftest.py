from pathlib import Path

import pytest

from fa3_matrix.matrix import Matrix, load

MATRIX_TOML = Path(__file__).parents[2] / "ci" / "matrix.toml"


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    """The project's own matrix."""
    return load(MATRIX_TOML)


@pytest.fixture(scope="session")
def matrix_text() -> str:
    """The text of the project's own matrix, for tests that break it in one place."""
    return MATRIX_TOML.read_text(encoding="utf-8")
