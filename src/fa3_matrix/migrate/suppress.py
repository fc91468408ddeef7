"""Findings that the source itself declares harmless: ``fa3-migrate: ignore[RULE] reason`` in a comment."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.rules import RULES

# Of C, C++ and CUDA; of Python, CMake, shells, YAML; of a block comment's inner lines; of XML and INI.
_COMMENT = r"(?://|/\*|\#|<!--|;|^\s*\*|^\s*(?:REM|rem|dnl)\s)"
_MARKER = re.compile(
    rf"{_COMMENT}(?P<before>.*?)\bfa3-migrate:\s*ignore(?:\[(?P<rules>[^\]]*)\])?(?P<reason>.*)$"
)


@dataclass(frozen=True)
class Marker:
    """One comment. ``alone``: nothing but the comment is on its line, so that it speaks of the next."""

    line: int
    rules: tuple[str, ...]
    reason: str
    alone: bool


@dataclass(frozen=True)
class Suppressed:
    """The findings, some of them with the reason now; ``problems``: one sentence each about comments without effect."""

    findings: tuple[Finding, ...]
    problems: tuple[str, ...]


def apply(root: Path, findings: Sequence[Finding]) -> Suppressed:
    """Read the files that have findings, and mark those that a comment declares harmless.

    A comment without a reason, or with a rule that does not exist, suppresses nothing and is a problem.
    """
    by_file: dict[str, list[Finding]] = {}
    for finding in findings:
        by_file.setdefault(finding.file, []).append(finding)
    reasons: dict[int, str] = {}
    problems: list[str] = []
    for file, found in by_file.items():
        try:
            text = (root / file).read_bytes().decode("utf-8", "replace")
        except OSError:
            continue  # gone since it was scanned: nothing is suppressed
        if "fa3-migrate" not in text:
            continue
        lines = text.split("\n")
        markers = read(lines)
        problems += _problems(file, markers.values())
        reasons |= {id(f): r for f in found if (r := _reason(f, lines, markers)) is not None}
    return Suppressed(
        tuple(replace(f, suppressed=reasons[id(f)]) if id(f) in reasons else f for f in findings),
        tuple(problems),
    )


def read(lines: Sequence[str]) -> dict[int, Marker]:
    """The comments of a file, by line from 1."""
    found = {}
    for number, line in enumerate(lines, 1):
        match = _MARKER.search(line) if "fa3-migrate" in line else None
        if match:
            rules = tuple(r.strip() for r in (match["rules"] or "").split(",") if r.strip())
            reason = re.split(r"\*/|-->", match["reason"])[0].strip(" \t\r:-")
            alone = not line[: match.start()].strip() and not _code_after(match["reason"])
            found[number] = Marker(number, rules, reason, alone)
    return found


def _code_after(text: str) -> bool:
    """Whether something follows the end of a block comment."""
    return bool(text.rpartition("*/")[2].strip()) if "*/" in text else False


def _problems(file: str, markers: Iterable[Marker]) -> list[str]:
    problems = []
    for marker in markers:
        where = f"{file}:{marker.line}"
        unknown = [rule for rule in marker.rules if rule not in RULES]
        if not marker.rules:
            problems.append(f"{where}: names no rule; write `fa3-migrate: ignore[RULE] reason`")
        elif unknown:
            problems.append(
                f"{where}: no such rule: {', '.join(unknown)}; the rules are {', '.join(RULES)}"
            )
        if not marker.reason:
            problems.append(
                f"{where}: gives no reason, and so suppresses nothing; write it after the bracket"
            )
    return problems


def _reason(finding: Finding, lines: Sequence[str], markers: dict[int, Marker]) -> str | None:
    """On the line itself; else on the lines that are such comments alone, right above the statement.

    A line that ends with a backslash goes on: its comment stands above its first line.
    """
    line = finding.line
    candidates = [markers.get(line)]
    while line > 1 and lines[line - 2].rstrip("\r").endswith("\\"):
        line -= 1
    while (above := markers.get(line - 1)) and above.alone:
        candidates.append(above)
        line -= 1
    return next((m.reason for m in candidates if m and m.reason and finding.rule in m.rules), None)
