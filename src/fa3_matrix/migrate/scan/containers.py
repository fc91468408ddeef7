"""Dockerfiles and CI files: images, packages, versions of the toolkit, and the commands in them."""

import re
from collections.abc import Iterator

from fa3_matrix.migrate.difference import Difference
from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.scan import packages, shell
from fa3_matrix.migrate.scan.comments import blanked
from fa3_matrix.migrate.scan.source import Source, name_of

_NAME = re.compile(
    r"(?:dockerfile|containerfile)(?:[.-].*)?|.*\.(?:dockerfile|containerfile|ya?ml)|jenkinsfile.*|devcontainer\.json|.*\.def"
)


def accepts(path: str, head: bytes) -> bool:
    """Container files, devcontainers, Jenkinsfiles, and every YAML file; conda's are `python`'s."""
    from fa3_matrix.migrate.scan import python

    name = name_of(path)
    if not _NAME.fullmatch(name) or python.is_requirements(path):
        return False
    return not name.endswith(".def") or b"bootstrap" in head.lower()  # Apptainer's, not a linker's


def find(file: str, text: str, difference: Difference) -> Iterator[Finding]:
    """All there is to say of one file; ``if:`` of a CI step is not evaluated."""
    source = Source(file, blanked(text), difference)
    for start, end, state in shell.lines(source):
        found = list(shell.commands(source, start, end, state))
        yield from found
        # conda's cuda-version=12.4 is a package already.
        taken = {(finding.line, finding.column) for finding in found}
        for finding in packages.settings(source, start, end, state):
            if (finding.line, finding.column) not in taken:
                yield finding
