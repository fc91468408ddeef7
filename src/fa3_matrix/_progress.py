"""Progress of long steps: rich's bar where a person watches and rich is there, else plain lines."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

# Plain lines go to logs, where one line every few seconds shows life without drowning the rest.
_SECONDS_BETWEEN_LINES = 5.0


class Progress(Protocol):
    """What `progress` yields."""

    def update(self, done: float, total: float | None = None) -> None:
        """Say that `done` of `total` is finished; `total=None` means that the end is not known."""


class _PlainProgress:
    def __init__(self, label: str, unit: str) -> None:
        self._label = label
        self._unit = unit
        self._next_line = time.monotonic() + _SECONDS_BETWEEN_LINES

    def update(self, done: float, total: float | None = None) -> None:
        now = time.monotonic()
        if now < self._next_line:
            return
        self._next_line = now + _SECONDS_BETWEEN_LINES
        amount = _amount(done, self._unit)
        if total:
            amount += f" of {_amount(total, self._unit)} ({100 * done / total:.0f} %)"
        print(f"{self._label}: {amount}", file=sys.stderr, flush=True)


def _amount(value: float, unit: str) -> str:
    return f"{value / 1e6:.1f} MB" if unit == "bytes" else f"{value:.0f} {unit}".rstrip()


@contextmanager
def progress(label: str, *, unit: str = "") -> Iterator[Progress]:
    """Show the progress of one long step on stderr.

    Args:
        label: What is being done, e.g. ``"build sm90-cu133"``.
        unit: ``"bytes"`` prints megabytes; any other word is printed after the number.

    Yields:
        An object whose ``update(done, total)`` may be called as often as is handy.
    """
    try:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichBar
    except ImportError:
        rich_bar = None
    else:
        console = Console(stderr=True)
        rich_bar = (
            RichBar(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[amount]}"),
                TimeElapsedColumn(),
                console=console,
            )
            if console.is_terminal
            else None
        )
    if rich_bar is None:
        print(f"{label} ...", file=sys.stderr, flush=True)
        yield _PlainProgress(label, unit)
        return

    bar = rich_bar
    task = bar.add_task(label, total=None, amount="")

    class _RichProgress:
        def update(self, done: float, total: float | None = None) -> None:
            amount = _amount(done, unit) + (f" / {_amount(total, unit)}" if total else "")
            bar.update(task, completed=done, total=total, amount=amount)

    with bar:
        yield _RichProgress()
