"""Watching a downloader's folder."""

import shutil
import threading
from pathlib import Path

from fa3_matrix.toolkits._process import _size


def test_a_folder_that_vanishes_while_it_is_measured(tmp_path: Path) -> None:
    """pip makes and removes folders of its own while the progress is read."""
    (tmp_path / "kept").write_bytes(b"x" * 100)
    done = threading.Event()

    def churn() -> None:
        while not done.is_set():
            (tmp_path / "pip-download" / "deep").mkdir(parents=True)
            shutil.rmtree(tmp_path / "pip-download")

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        assert {_size(tmp_path) for _ in range(3000)} == {100}
    finally:
        done.set()
        thread.join()
