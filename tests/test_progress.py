"""The progress helper where nobody watches: plain lines, no more than needed."""

import subprocess
import sys
from pathlib import Path

import fa3_matrix._progress
from fa3_matrix._progress import progress


def test_plain_lines_go_to_stderr(capsys) -> None:
    with progress("build", unit="files") as bar:
        for done in range(1000):
            bar.update(done, 1000)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "build ...\n"


def test_line_after_some_seconds(capsys, monkeypatch) -> None:
    monkeypatch.setattr(fa3_matrix._progress, "_SECONDS_BETWEEN_LINES", 0.0)
    with progress("download", unit="bytes") as bar:
        bar.update(1.5e6, 3e6)
        bar.update(2e6)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["download ...", "download: 1.5 MB of 3.0 MB (50 %)", "download: 2.0 MB"]


def test_works_without_rich() -> None:
    code = (
        "import sys; sys.modules['rich'] = None\n"
        "from fa3_matrix._progress import progress\n"
        "with progress('x') as p: p.update(1, 2)\n"
    )
    src = Path(fa3_matrix._progress.__file__).parents[1]
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(src)})
