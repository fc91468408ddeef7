"""What one scan came to: its findings as they are reported, and whether they fail the run."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from fa3_matrix.migrate.difference import Difference
from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.rules import Severity, State

_ORDER = {severity: rank for rank, severity in enumerate(Severity)}
_STATES = {State.ACTIVE: 0, State.LATENT: 1, State.INACTIVE: 2}


class FailOn(StrEnum):
    """From which findings on the command exits with 1."""

    BREAK = "break"  # breaks that the new toolkit surely meets
    LATENT = "latent"  # and those behind a condition whose value is not known
    DEPRECATED = "deprecated"  # and what is deprecated or silently means something else


@dataclass(frozen=True)
class Entry:
    """A finding. ``occurrence``: from 1, among those of the same fingerprint; ``known``: in the baseline."""

    finding: Finding
    occurrence: int
    known: bool = False

    @property
    def identity(self) -> str:
        """Unique in its run."""
        return f"{self.finding.fingerprint}:{self.occurrence}"

    @property
    def open(self) -> bool:
        """Still to be dealt with: not suppressed, not guarded by the toolkit's version."""
        return self.finding.suppressed is None and self.finding.state is not State.INACTIVE

    @property
    def standing(self) -> str:
        """The column of `Result.counts` that it is counted in."""
        if self.finding.suppressed is not None:
            return "suppressed"
        return "known" if self.known else str(self.finding.state)

    def fails(self, fail_on: FailOn) -> bool:
        """Whether the run fails by it."""
        if self.known or not self.open:
            return False
        if self.finding.severity is Severity.BREAK:
            return self.finding.state is State.ACTIVE or fail_on is not FailOn.BREAK
        return fail_on is FailOn.DEPRECATED and self.finding.severity is not Severity.INFO


def entries(findings: Iterable[Finding]) -> tuple[Entry, ...]:
    """In the order of files and lines; each place once."""
    ordered = sorted(
        dict.fromkeys(findings), key=lambda f: (f.file, f.line, f.column, f.rule, f.name)
    )
    counts: Counter[str] = Counter()
    found = []
    for finding in ordered:
        counts[finding.fingerprint] += 1
        found.append(Entry(finding, counts[finding.fingerprint]))
    return tuple(found)


@dataclass(frozen=True)
class Result:
    """One run.

    Args:
        difference: what was looked for.
        root: the scanned folder, as the user named it.
        entries: all findings, suppressed and known ones too.
        files, lines: how much was read; skipped: (file, reason) of what was not.
        notes: sentences for the user: comments without effect, what compiling showed.
        fail_on: see `FailOn`.
    """

    difference: Difference
    root: str
    entries: tuple[Entry, ...]
    files: int
    lines: int
    skipped: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    fail_on: FailOn = FailOn.BREAK

    @property
    def failing(self) -> int:
        """How many findings fail the run."""
        return sum(entry.fails(self.fail_on) for entry in self.entries)

    @property
    def worst_first(self) -> list[Entry]:
        """Open ones before the others, then by severity, state, file and line."""
        return sorted(
            self.entries,
            key=lambda e: (
                not e.open,
                e.known,
                _ORDER[e.finding.severity],
                _STATES[e.finding.state],
                e.finding.file,
                e.finding.line,
            ),
        )

    def counts(self) -> dict[Severity, dict[str, int]]:
        """By severity: how many are active and latent, inactive, suppressed, known; each counted once."""
        table = {
            severity: dict.fromkeys(("active", "latent", "inactive", "suppressed", "known"), 0)
            for severity in Severity
        }
        for entry in self.entries:
            table[entry.finding.severity][entry.standing] += 1
        return table

    def by_release(self) -> dict[str, int]:
        """Open findings by the release that made the break; "unknown" last."""
        counts = Counter(e.finding.since or "unknown" for e in self.entries if e.open)
        return dict(sorted(counts.items(), key=lambda item: _release_key(item[0])))


def _release_key(release: str) -> tuple[int, ...]:
    parts = release.split(".")
    return tuple(map(int, parts)) if all(p.isdigit() for p in parts) else (10**6,)
