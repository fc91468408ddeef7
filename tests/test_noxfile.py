"""The sessions, as whoever starts them sees them."""

import subprocess
import sys
from pathlib import Path


def test_a_session_that_judges_ends_with_its_command_s_exit_code() -> None:
    command = [
        sys.executable,
        "-m",
        "nox",
        "--no-venv",
        "-s",
        "static-gate",
        "--",
        "--cell",
        "sm00",
    ]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stdout + done.stderr  # it could not be done
    assert "sm00" in done.stderr
