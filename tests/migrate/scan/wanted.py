"""Snippets that say themselves what is to be found in them.

A line ends in ``// want: RULE`` for each finding that begins on it; ``RULE~medium`` where it is not sure,
``RULE:latent`` and ``RULE:inactive`` where it is guarded. What no line wants must not be found.
"""

import re
from collections.abc import Iterable

from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.rules import Severity, State


def wanted(code: str) -> list[tuple[int, str]]:
    return sorted(
        (number, want)
        for number, line in enumerate(code.split("\n"), 1)
        for match in re.finditer(r"// want: (.*)$", line.rstrip("\r"))
        for want in match[1].split()
    )


def found(findings: Iterable[Finding]) -> list[tuple[int, str]]:
    texts = []
    for finding in findings:
        if finding.severity is Severity.INFO:
            continue
        text = finding.rule
        if finding.confidence != "high":
            text += f"~{finding.confidence}"
        if finding.state is not State.ACTIVE:
            text += f":{finding.state}"
        texts.append((finding.line, text))
    return sorted(texts)
