"""What is mechanical, as a unified patch that ``git apply`` and ``patch -p1`` take from the scanned folder."""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from fa3_matrix.errors import Fa3Error
from fa3_matrix.migrate.finding import Edit, Finding
from fa3_matrix.migrate.rules import State


class FixError(Fa3Error):
    """A file to be changed cannot be read, or the patch cannot be written."""


@dataclass(frozen=True)
class Patch:
    """``text``: bytes, as the files have them; ``fixed``: findings it deals with; ``left``: (file:line, why not)."""

    text: bytes
    files: int
    fixed: int
    left: tuple[tuple[str, str], ...]


def patch(root: Path, findings: Sequence[Finding]) -> Patch:
    """Of all findings with edits that are neither suppressed nor guarded by the toolkit's version.

    Raises:
        FixError: a file has gone or cannot be read.
    """
    by_file: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.edits and finding.suppressed is None and finding.state is not State.INACTIVE:
            by_file.setdefault(finding.file, []).append(finding)
    parts: list[bytes] = []
    left: list[tuple[str, str]] = []
    fixed = 0
    for file, found in sorted(by_file.items()):
        try:
            raw = (root / file).read_bytes()
        except OSError as error:
            raise FixError(f"{root / file}: cannot be read ({error}); scan again") from error
        before = _lines(raw)
        after, done, refused = _edited(before, found)
        left += [(f"{file}:{finding.line}", why) for finding, why in refused]
        difference = _difference(file, before, after)
        if difference:
            fixed += done
            parts.append(difference)
    return Patch(b"".join(parts), len(parts), fixed, tuple(left))


def write(path: Path, text: bytes) -> None:
    """Write a patch atomically, its bytes as they are.

    Raises:
        FixError: the folder cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(text)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise FixError(f"{path}: cannot be written ({error})") from error


def _lines(raw: bytes) -> list[bytes]:
    """With their ends: \\n alone ends a line, so that a lone \\r or a form feed stays inside it."""
    return re.findall(rb"[^\n]*\n|[^\n]+", raw)


def _edited(
    lines: list[bytes], findings: Iterable[Finding]
) -> tuple[list[bytes], int, list[tuple[Finding, str]]]:
    taken: dict[int, list[Edit]] = {}
    refused: list[tuple[Finding, str]] = []
    done = 0
    for finding in findings:
        obstacles = (_obstacle(edit, lines, taken) for edit in finding.edits)
        why = _meant(finding) or next(filter(None, obstacles), None)
        if why:
            refused.append((finding, why))
            continue
        done += 1
        for edit in finding.edits:
            row = taken.setdefault(edit.line, [])
            if edit not in row:
                row.append(edit)
    after = list(lines)
    for number, edits in taken.items():
        text = after[number - 1].decode()
        for edit in sorted(edits, key=lambda e: e.column, reverse=True):
            text = text[: edit.column - 1] + edit.text + text[edit.end_column - 1 :]
        after[number - 1] = text.encode()
    # Split anew: an edit may have put lines in.
    return _lines(b"".join(after)), done, refused


def _meant(finding: Finding) -> str | None:
    """Behind an unknown condition the old toolkit's form may be meant; what fits both is right there too."""
    both = finding.remedy is not None and finding.remedy.both is not None
    if finding.state is State.LATENT and not both:
        return "it stands behind a condition that may be on the toolkit's version"
    return None


def _obstacle(edit: Edit, lines: list[bytes], taken: dict[int, list[Edit]]) -> str | None:
    if not 0 < edit.line <= len(lines):
        return "the file has changed since it was scanned"
    try:
        text = lines[edit.line - 1].decode()
    except UnicodeDecodeError:
        return (
            "the line is not UTF-8"  # its columns are those of a text in which bytes were replaced
        )
    if not 0 < edit.column <= edit.end_column <= len(text) + 1:
        return "the file has changed since it was scanned"
    for other in taken.get(edit.line, []):
        if edit != other and edit.column < other.end_column and other.column < edit.end_column:
            return "another fix changes the same place; apply, and scan again"
    return None


def _difference(file: str, before: list[bytes], after: list[bytes]) -> bytes:
    if before == after:
        return b""
    # Without a "diff --git" line the paths count from where git apply runs, in a subfolder as well.
    lines = difflib.diff_bytes(
        difflib.unified_diff,
        before,
        after,
        _quoted(f"a/{file}"),
        _quoted(f"b/{file}"),
        lineterm=b"\n",
    )
    return b"".join(
        line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"
        for line in lines
    )


def _quoted(path: str) -> bytes:
    """As git quotes names: in C's manner if there are quotes, controls or bytes above 127; else a tab ends blanks."""
    raw = path.encode("utf-8", "surrogateescape")
    if re.search(rb'[\x00-\x1f"\\\x7f-\xff]', raw):
        escaped = b"".join(
            b"\\" + bytes([c])
            if c in b'"\\'
            else b"\\%03o" % c
            if c < 32 or c > 126
            else bytes([c])
            for c in raw
        )
        return b'"' + escaped + b'"'
    return raw + b"\t" if b" " in raw else raw
