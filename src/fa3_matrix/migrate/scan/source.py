"""One text file under the scanner: where an offset is, and how a change becomes a finding there."""

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from fa3_matrix.migrate.difference import Change, Difference, Remedy
from fa3_matrix.migrate.finding import Edit, Finding
from fa3_matrix.migrate.rules import RULES, Proof, Severity, State

CONSTRUCT_LIMIT = 200


@dataclass(frozen=True)
class Source:
    """``file``: relative, with /. Lines end with \\n alone: a \\r before it belongs to the line."""

    file: str
    text: str
    difference: Difference

    @cached_property
    def starts(self) -> list[int]:
        """Offset of the first character of each line."""
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1."""
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """The inverse of `position`."""
        return self.starts[line - 1] + column - 1

    def is_one_line(self, start: int, end: int) -> bool:
        """Whether no line ends between two offsets; `edit` needs that."""
        return "\n" not in self.text[start:end]

    def newline_of(self, offset: int) -> str:
        """How the line at ``offset`` ends."""
        end = self.text.find("\n", offset)
        return "\r\n" if end > 0 and self.text[end - 1] == "\r" else "\n"

    def edit(self, start: int, end: int, text: str) -> Edit:
        """Replace what is between two offsets of one line."""
        line, column = self.position(start)
        return Edit(line, column, column + end - start, text)

    def change(self, rule: str, *names: str) -> Change | None:
        """The row of the difference about the first of ``names`` that has one."""
        rows = self.difference.by_rule.get(rule, {})
        return next((rows[name] for name in names if name in rows), None)

    def only(self, rule: str) -> Change | None:
        """The row of a rule that has one."""
        return next(iter(self.difference.by_rule.get(rule, {}).values()), None)

    def finding(
        self,
        rule: str,
        span: tuple[int, int],
        name: str,
        message: str,
        *,
        change: Change | None = None,
        remedy: Remedy | None = None,
        severity: Severity | None = None,
        state: State = State.ACTIVE,
        confidence: str = "high",
        edits: tuple[Edit, ...] = (),
    ) -> Finding:
        """A finding at the offsets ``span``; a row of the difference, where there is one, says more."""
        line, column = self.position(span[0])
        construct = " ".join(self.text[slice(*span)].split())[:CONSTRUCT_LIMIT]
        return Finding(
            rule=rule,
            severity=severity or RULES[rule].severity,
            state=state,
            confidence=confidence,
            file=self.file,
            line=line,
            column=column,
            construct=construct,
            name=name,
            message=message,
            since=change.since if change else None,
            remedy=(change.remedy if change else None) or remedy,
            proof=change.proof if change else Proof.DOCUMENTATION,
            url=change.url if change else None,
            edits=edits,
        )


def major(version: str) -> int:
    """13 of ``13.3``."""
    return int(version.split(".")[0])


def releases(difference: Difference) -> tuple[int, int] | None:
    """The majors of both toolkits where they differ: names that carry the major change then only."""
    old, new = major(difference.old), major(difference.new)
    return (old, new) if old != new else None


def name_of(path: str) -> str:
    """The last part of a path with /, in lower case."""
    return path.rpartition("/")[2].lower()
