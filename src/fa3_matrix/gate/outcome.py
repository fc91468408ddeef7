"""Outcomes of a gate and their exit codes. Apart from what judges, so that no numeric library is needed to name one."""

from enum import Enum


class Outcome(Enum):
    """What a run as a whole comes to, in order of precedence: the first that applies is told, and is the exit code.

    Incomplete comes first: all other rules are stated for the planned data, the controls' too (trials of two GPUs
    would make them reject). Then void: a harness that sees differences where there are none has no failures to show.
    A regression comes before what is merely undecided: it alone asks for a change to head.
    """

    INCOMPLETE = "incomplete"
    VOID = "void"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    PASS = "pass"

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self]


# 1 and 2 are pytest's and Python's own; these mean nothing else.
_EXIT_CODES = {
    Outcome.PASS: 0,
    Outcome.FAIL: 9,
    Outcome.INCONCLUSIVE: 10,
    Outcome.INCOMPLETE: 11,
    Outcome.VOID: 12,
}
