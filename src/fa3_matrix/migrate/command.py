"""``fa3-matrix migrate``: load the difference, scan, prove, suppress, compare with the baseline, write, judge."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fa3_matrix import _json
from fa3_matrix._progress import progress
from fa3_matrix.errors import Fa3Error
from fa3_matrix.migrate import baseline, fix, suppress
from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.formats import (
    DIFFERENCE_FORMATS,
    FORMATS,
    Format,
    FormatError,
    of_file,
    text,
)
from fa3_matrix.migrate.result import FailOn, Result, entries
from fa3_matrix.migrate.rules import RULES

BREAKS = 1  # exit code: something that fails the run was found


class MigrateError(Fa3Error):
    """What was asked for cannot be done; says what can."""


@dataclass(frozen=True)
class Options:
    """What the command line says; see `fa3-matrix migrate --help`."""

    old: str = "12.4"
    new: str = "13.3"
    format: Format = Format.TEXT
    outputs: tuple[Path, ...] = ()
    exclude: tuple[str, ...] = ()
    baseline: Path | None = None
    write_baseline: Path | None = None
    fail_on: FailOn = FailOn.BREAK
    fix: Path | None = None
    prove: bool = False
    compile_commands: Path | None = None
    jobs: int | None = None


def run(root: Path, options: Options) -> int:
    """Scan ``root`` and write what was asked for; return the exit code: 0, or 1 if findings fail the run.

    Raises:
        Fa3Error: it could not be done; the message says why.
    """
    if not root.exists():
        raise MigrateError(f"{root}: no such file or folder; name a source tree")
    for path in options.outputs:
        of_file(path)  # before the work, not after it
    result = examine(root, options)
    if options.write_baseline:
        number = baseline.write(options.write_baseline, result.entries, result.difference)
        _say(f"wrote {options.write_baseline}: {number} findings are known from now on")
    if options.fix:
        _fix(root, options.fix, [entry.finding for entry in result.entries])
    for path in options.outputs:
        _write(path, _clean(FORMATS[of_file(path)](result)))
    if options.fix != Path("-"):
        _show(result, options.format)
    return BREAKS if result.failing and not options.write_baseline else 0


def examine(root: Path, options: Options) -> Result:
    """What a scan of ``root`` comes to; writes nothing.

    Raises:
        Fa3Error: as `run`.
    """
    from fa3_matrix.migrate.scan import scan
    from fa3_matrix.migrate.store import load_difference

    difference = load_difference(options.old, options.new)
    with progress(f"scan {root}", unit="bytes") as bar:
        scanned = scan(root, difference, exclude=options.exclude, progress=bar.update)
    folder = root if root.is_dir() else root.parent
    findings = list(scanned.findings)
    notes: tuple[str, ...] = ()
    if options.prove:
        findings, notes = _prove(folder, findings, options)
    marked = suppress.apply(folder, findings)
    notes += marked.problems
    found = entries(marked.findings)
    if options.baseline:
        found, gone = baseline.mark(found, baseline.read(options.baseline, difference))
        if gone:
            notes += (
                f"{gone} findings of the baseline are gone: `--write-baseline {options.baseline}` drops them",
            )
    return Result(
        difference=difference,
        root=str(root),
        entries=found,
        files=scanned.files,
        lines=scanned.lines,
        skipped=tuple((s.file, s.reason) for s in scanned.skipped),
        notes=notes,
        fail_on=options.fail_on,
    )


def diff(
    old: str, new: str, rules: Sequence[str], format: Format, output: Path | None = None
) -> None:
    """Print the difference of two toolkits, all of it or some rules, or write it to `output` as its suffix says.

    Raises:
        MigrateError: a rule does not exist.
        FormatError: the format is SARIF.
        Fa3Error: nothing is known of these toolkits.
    """
    from fa3_matrix.migrate.store import load_difference

    format = of_file(output) if output else format
    unknown = [rule for rule in rules if rule not in RULES]
    if unknown:
        raise MigrateError(f"no such rule: {', '.join(unknown)}; the rules are {', '.join(RULES)}")
    if format not in DIFFERENCE_FORMATS:
        known = ", ".join(DIFFERENCE_FORMATS)
        raise FormatError(f"a difference has no files, so none of it is {format}: take {known}")
    difference = load_difference(old, new)
    changes = tuple(c for c in difference.changes if not rules or c.rule in rules)
    shown = _clean(DIFFERENCE_FORMATS[format](difference, changes))
    if output:
        _write(output, shown)
    else:
        sys.stdout.write(shown)


def _prove(
    root: Path, findings: list[Finding], options: Options
) -> tuple[list[Finding], tuple[str, ...]]:
    from fa3_matrix import toolkits
    from fa3_matrix.migrate.prove import prove

    old, new = toolkits.find(options.old), toolkits.find(options.new)
    with progress("compile by both toolkits", unit="units") as bar:
        proved = prove(
            root,
            findings,
            old,
            new,
            database=options.compile_commands,
            jobs=options.jobs,
            progress=bar,
        )
    return list(proved.findings), proved.notes


def _fix(root: Path, path: Path, findings: Sequence[Finding]) -> None:
    folder = root if root.is_dir() else root.parent
    made = fix.patch(folder, findings)
    if path == Path("-"):
        sys.stdout.buffer.write(made.text)
        sys.stdout.buffer.flush()
    else:
        fix.write(path, made.text)
    for place, why in made.left:
        _say(f"not fixed: {place}: {why}")
    _say(
        f"{'wrote the patch' if path == Path('-') else f'wrote {path}'}: {made.fixed} findings in {made.files} files"
        + (
            f"; apply it in {folder}: git apply {path.resolve()}"
            if made.text and path != Path("-")
            else ""
        )
    )


def _write(path: Path, content: str) -> None:
    try:
        _json.write_text_atomic(path, content)
    except OSError as error:
        raise MigrateError(f"{path}: cannot be written ({error})") from error
    _say(f"wrote {path}")


def _show(result: Result, format: Format) -> None:
    if format is Format.TEXT and sys.stdout.isatty():
        from rich.console import Console

        text.show(result, Console())
    else:
        sys.stdout.write(_clean(FORMATS[format](result)))


def _clean(text: str) -> str:
    """Names of files may hold bytes that are no UTF-8."""
    return text.encode("utf-8", "replace").decode()


def _say(line: str) -> None:
    print(line, file=sys.stderr)
