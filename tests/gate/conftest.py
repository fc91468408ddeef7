import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _little_to_collect() -> Iterator[None]:
    """statsmodels collects garbage at every correction, which looks at all that is loaded: 45 ms a call."""
    gc.freeze()
    yield
    gc.unfreeze()
