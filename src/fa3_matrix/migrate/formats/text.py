"""Text: one line a finding, as compilers write them; a table where a person watches."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fa3_matrix.migrate.difference import Change, Difference, Remedy
from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.result import Entry, Result
from fa3_matrix.migrate.rules import Proof, Severity, State

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {
    Severity.BREAK: "bold red",
    Severity.SILENT: "magenta",
    Severity.DEPRECATED: "yellow",
    Severity.INFO: "blue",
}


def result(result: Result) -> str:
    """Of a scan: for logs and grep."""
    lines = [_line(entry) for entry in result.entries if entry.open and not entry.known]
    return "\n".join([*lines, *([""] if lines else []), *_summary(result)]) + "\n"


def difference(difference: Difference, changes: tuple[Change, ...]) -> str:
    """Of two toolkits: a line a change."""
    lines = [
        f"{change.rule}: {change.name}{_since(change.since)}: {change.old or 'absent'} -> "
        f"{change.new or 'absent'}{_advice(change.remedy)}"
        for change in changes
    ]
    return "\n".join([*lines, *_totals(difference, changes)]) + "\n"


def show(result: Result, console: "Console") -> None:
    """Of a scan: for a person at a terminal."""
    from rich.markup import escape
    from rich.table import Table

    shown = [entry for entry in result.entries if entry.open and not entry.known]
    by_file: dict[str, list[Finding]] = {}
    for entry in shown:
        by_file.setdefault(entry.finding.file, []).append(entry.finding)
    for file, findings in by_file.items():
        table = Table(box=None, show_header=False, pad_edge=False, title_justify="left")
        table.add_column(justify="right", style="dim")
        table.add_column(no_wrap=True)
        table.add_column(ratio=1)
        console.print(f"[bold]{escape(file)}[/bold]")
        for f in findings:
            advice = f"\n[green]{escape(_what(f.remedy))}[/green]" if f.remedy else ""
            place = f"{f.line}:{f.column}"
            label = f"[{_STYLES[f.severity]}]{escape(_label(f))}[/]"
            table.add_row(place, label, f"{escape(f.message + _since(f.since))}{advice}")
        console.print(table)
        console.print()
    for line in _summary(result):
        console.print(escape(line), highlight=False)


def _line(entry: Entry) -> str:
    f = entry.finding
    return f"{f.file}:{f.line}:{f.column}: {_label(f)}: {f.message}{_since(f.since)}{_advice(f.remedy)}"


def _label(finding: Finding) -> str:
    state = "" if finding.state is State.ACTIVE else f", {finding.state}"
    proved = ", compiled" if finding.proof in (Proof.COMPILED, Proof.LINKED) else ""
    return f"{finding.severity}[{finding.rule}{state}{proved}]"


def _since(release: str | None) -> str:
    return f" (since {release})" if release else ""


def _what(remedy: Remedy) -> str:
    form = remedy.both or remedy.guarded
    return f"{remedy.text} {form}" if form and "\n" not in form else remedy.text


def _advice(remedy: Remedy | None) -> str:
    return f" Instead: {_what(remedy)}" if remedy else ""


def _summary(result: Result) -> Iterator[str]:
    d = result.difference
    yield from (f"note: {note}" for note in result.notes)
    for file, reason in result.skipped:
        yield f"skipped: {file}: {reason}"
    read = f"{result.files} files, {result.lines} lines; CUDA {d.old} -> {d.new}"
    yield f"{read}, CCCL {d.old_cccl} -> {d.new_cccl}"
    counts = result.counts()
    named = (
        f"{severity}: "
        + ", ".join(f"{number} {column}" for column, number in row.items() if number)
        for severity, row in counts.items()
        if any(row.values())
    )
    yield "; ".join(named) or "no findings"
    yield f"{result.failing} fail the run (--fail-on {result.fail_on})"


def _totals(difference: Difference, changes: tuple[Change, ...]) -> Iterator[str]:
    by_rule: dict[str, int] = {}
    for change in changes:
        by_rule[change.rule] = by_rule.get(change.rule, 0) + 1
    yield ""
    yield (
        f"CUDA {difference.old} -> {difference.new}, CCCL {difference.old_cccl} -> "
        f"{difference.new_cccl}: {len(changes)} changes"
    )
    yield ", ".join(f"{rule} {number}" for rule, number in by_rule.items()) or "none"
