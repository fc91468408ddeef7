"""Markdown, within what a comment of a code host takes: counts by severity and release, then the findings."""

import re
from collections.abc import Iterable, Iterator

from fa3_matrix.migrate.difference import Change, Difference
from fa3_matrix.migrate.result import Entry, Result
from fa3_matrix.migrate.rules import Proof, State

# GitHub's limit of a comment, in characters. (A job summary takes 1 MiB.)
LIMIT = 65_536
_ROOM_FOR_THE_END = 200


def result(result: Result) -> str:
    """Of a scan. What doesn't fit is counted in the last line."""
    d = result.difference
    head = [
        f"# CUDA {d.old} to {d.new}: {_verdict(result)}",
        "",
        f"{result.files} files, {result.lines} lines read. CCCL {d.old_cccl} to {d.new_cccl}.",
        "",
        *_table(
            ("severity", "active", "latent", "inactive", "suppressed", "in the baseline"),
            ((severity, *row.values()) for severity, row in result.counts().items()),
        ),
        "",
        *_releases(result),
    ]
    tail = [
        *(f"- {_text(note)}" for note in result.notes),
        *(f"- skipped {_code(file)}: {_text(reason)}" for file, reason in result.skipped),
    ]
    shown = [entry for entry in result.worst_first if entry.open and not entry.known]
    rows = [_row(entry) for entry in shown]
    body = ["## Findings", "", *_table(("where", "rule", "what", "instead"), ())] if rows else []
    return _fitted(head + body, rows, ["", *tail] if tail else [], "findings")


def difference(difference: Difference, changes: tuple[Change, ...]) -> str:
    """Of two toolkits, a row a change."""
    head = [
        f"# CUDA {difference.old} to {difference.new}: {len(changes)} changes",
        "",
        *_table(("rule", "name", "since", "was", "is", "instead"), ()),
    ]
    rows = [
        _cells(
            change.rule,
            _code(change.name),
            change.since or "",
            _code(change.old) if change.old else "",
            _code(change.new) if change.new else "",
            _text(change.remedy.text) if change.remedy else "",
        )
        for change in changes
    ]
    return _fitted(head, rows, [], "changes")


def _verdict(result: Result) -> str:
    return f"{result.failing} to be dealt with" if result.failing else "nothing that fails"


def _releases(result: Result) -> Iterator[str]:
    releases = result.by_release()
    if releases:
        yield from _table(("changed in", "findings"), releases.items())
        yield ""


def _row(entry: Entry) -> str:
    f = entry.finding
    state = "" if f.state is State.ACTIVE else f", {f.state}"
    proved = ", compiled" if f.proof in (Proof.COMPILED, Proof.LINKED) else ""
    instead = ""
    if f.remedy:
        form = f.remedy.both or f.remedy.guarded
        instead = _text(f.remedy.text) + (f" {_code(form)}" if form and "\n" not in form else "")
    return _cells(
        _code(f"{f.file}:{f.line}"),
        f"{f.rule} ({f.severity}{state}{proved})",
        f"{_text(f.message)} {_code(f.construct)}",
        instead,
    )


def _fitted(head: list[str], rows: list[str], tail: list[str], what: str) -> str:
    end = "\n".join(tail)
    if len(end) > LIMIT // 4:
        end = end[: LIMIT // 4].rpartition("\n")[0] + "\n- ... and more"
    room = LIMIT - len("\n".join(head)) - len(end) - _ROOM_FOR_THE_END
    kept = []
    for row in rows:
        room -= len(row) + 1
        if room < 0:
            break
        kept.append(row)
    cut = len(rows) - len(kept)
    more = ["", f"{cut} more {what} are left out here: `--format json` has all."] if cut else []
    return "\n".join([*head, *kept, *more, *([end] if end else [])]).rstrip() + "\n"


def _table(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    names = list(headings)
    yield _cells(*names)
    yield "|" + " --- |" * len(names)
    for row in rows:
        yield _cells(*map(str, row))


def _cells(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _text(text: str) -> str:
    """In a cell: one line, and nothing that Markdown or HTML would take as its own."""
    return re.sub(r"([\\`*_{}\[\]<>|#@])", r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    """Code in a cell; a fence longer than any run of backticks in it."""
    line = " ".join(text.split())
    if not line:
        return ""
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    # A table's cell ends at a bar even in code; GitHub takes \| there.
    return f"{fence}{pad}{line.replace('|', chr(92) + '|')}{pad}{fence}"
