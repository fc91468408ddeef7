"""A finding: one place in a tree that a change of the toolkit touches."""

import hashlib
from dataclasses import dataclass

from fa3_matrix.migrate.difference import Remedy
from fa3_matrix.migrate.rules import Proof, Severity, State


@dataclass(frozen=True)
class Edit:
    """Replaces the text of line ``line`` from column ``column`` (both from 1, in characters) up to ``end_column``."""

    line: int
    column: int
    end_column: int
    text: str


@dataclass(frozen=True)
class Finding:
    """One place.

    Args:
        rule: id; severity: the rule's, or what this place makes of it.
        state: see `State`; confidence: "high" | "medium" | "low".
        file: relative to the scanned root, with /; line, column: from 1.
        construct: the text there, one line, cut to 200 characters.
        name: of the `Change` (or of what a hand-written rule is about).
        message: one sentence: what happens.
        since: release that made the break, if known.
        remedy, proof, url: as of the change; proof may be raised by compiling.
        edits: what ``--fix`` would do; empty: not mechanical.
        suppressed: the reason given in the source, or None.
    """

    rule: str
    severity: Severity
    state: State
    confidence: str
    file: str
    line: int
    column: int
    construct: str
    name: str
    message: str
    since: str | None = None
    remedy: Remedy | None = None
    proof: Proof = Proof.HEADERS
    url: str | None = None
    edits: tuple[Edit, ...] = ()
    suppressed: str | None = None

    @property
    def fingerprint(self) -> str:
        """Stays the same when lines shift: of rule, file, name and the construct without its blanks."""
        parts = (self.rule, self.file, self.name, "".join(self.construct.split()))
        text = "\0".join(parts).encode(
            "utf-8", "surrogateescape"
        )  # names of files need not be text
        return hashlib.sha256(text).hexdigest()[:32]
