"""Libraries and paths of the toolkit, by name: what is linked, loaded or searched."""

import re
from collections.abc import Iterator
from functools import lru_cache

from fa3_matrix.migrate.difference import Change, Remedy
from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.rules import Severity, State
from fa3_matrix.migrate.scan.source import Source, releases


def find(source: Source, start: int, end: int, state: State) -> Iterator[Finding]:
    """Libraries that the new toolkit names otherwise, and folders of the old toolkit, between two offsets."""
    rows = _by_spelling(source.difference.by_rule.get("SONAME", {}))
    for match in _pattern(tuple(rows)).finditer(source.text, start, end) if rows else ():
        row = rows[match["name"].lower()]
        exact = row.name.lower() == match[0].lower()
        # A release of the old library, libcudart.so.12.4.127, has no successor to write instead.
        replacement = row.remedy.replacement if row.remedy and exact else None
        yield source.finding(
            row.rule,
            match.span(),
            row.name,
            f"{row.name} is {row.new} in CUDA {source.difference.new}."
            if row.new
            else f"CUDA {source.difference.new} has no {row.name}.",
            change=row,
            state=_state(source, state, row),
            confidence="high" if exact or match["flag"] or match["release"] else "medium",
            edits=(source.edit(*match.span("name"), replacement),) if replacement else (),
        )
    yield from _folders(source, start, end, state)


def _state(source: Source, state: State, row: Change) -> State:
    """A file that names the successor as well tries one after the other."""
    if state is State.ACTIVE and row.new and row.new.lower() in source.text.lower():
        return State.INACTIVE
    return state


def _by_spelling(changes: dict[str, Change]) -> dict[str, Change]:
    """Rows by what is written, in lower case: ``-lnvToolsExt`` is the library ``libnvToolsExt.so.1``."""
    rows: dict[str, Change] = {}
    for change in changes.values():
        rows.setdefault(change.name.lower(), change)
        base = re.fullmatch(r"(?:lib|CUDA::)(\w+)(?:\.(?:so|a)[\d.]*)?", change.name)
        # A library that is still there under another version is found by -l as before.
        if base and change.new is None:
            rows.setdefault(base[1].lower(), change)
    return rows


@lru_cache(maxsize=4)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    either = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    return re.compile(
        rf"(?<![\w.:-])(?P<flag>-l)?(?P<name>{either})(?P<release>(?:\.\d+)+)?(?![\w-]|\.\w)",
        re.IGNORECASE,
    )


_LONGEST_PATH = 200
_FOLDER = re.compile(r"/cuda-(?P<version>\d+(?:\.\d+)?)(?![\w.-])")
_BEFORE = re.compile(r"[\w./-]*$")


def _folders(source: Source, start: int, end: int, state: State) -> Iterator[Finding]:
    majors = releases(source.difference)
    if majors is None:
        return
    for match in _FOLDER.finditer(source.text, start, end):
        if int(match["version"].split(".")[0]) != majors[0]:
            continue
        new = source.difference.new if "." in match["version"] else str(majors[1])
        first = max(start, match.start() - _LONGEST_PATH)
        before = _BEFORE.search(source.text, first, match.start())
        span = (before.start() if before else match.start(), match.end())
        yield source.finding(
            "SONAME",
            span,
            f"cuda-{match['version']}",
            f"{source.text[slice(*span)]} is a folder of the old toolkit: its headers and libraries would be taken.",
            remedy=Remedy(
                text=f"Name the folder of CUDA {source.difference.new}, or none: /usr/local/cuda.",
                replacement=f"cuda-{new}",
            ),
            severity=Severity.SILENT,
            state=state,
            confidence="medium",
            edits=(source.edit(*match.span("version"), new),),
        )
