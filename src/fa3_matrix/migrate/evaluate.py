"""How good the scanner is: what it finds in real trees, against what both compilers say of their translation units.

``python -m fa3_matrix.migrate.evaluate NAME=TREE ... --from 12.4 --to 13.3 --out quality.json`` labels each unit by
its compilation: broken, if the old toolkit takes it and the new one does not; clean, if both take it. What the old one
refuses has no label. A unit counts as found where the scanner has an active break in it, or in a file that the old
compiler read for it. Labels are kept, so that a second run goes on where the first one stopped.
"""

import argparse
import dataclasses
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from fa3_matrix import _json
from fa3_matrix._extras import needs
from fa3_matrix._progress import progress
from fa3_matrix.errors import Fa3Error
from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.labels import Compilers, Kept, Label, units_of
from fa3_matrix.migrate.prove import CUDA_SUFFIXES, Diagnostic, is_about, is_compiled
from fa3_matrix.migrate.rules import Severity, State
from fa3_matrix.migrate.scan import scan
from fa3_matrix.migrate.scan.tree import Tree
from fa3_matrix.migrate.scan.walk import Listed, read_text, walk
from fa3_matrix.migrate.store import load_difference
from fa3_matrix.toolkits import cache_dir, find

_LEVEL = 0.95
_LINES = 12  # of a statement, at most


class Verdict(StrEnum):
    """What the scanner's word on a unit, or on a place, comes to."""

    HIT = "hit"  # broken, and found: a true positive
    ALARM = "alarm"  # not broken, and found: a false positive
    MISS = "miss"  # broken, and not found: a false negative
    QUIET = "quiet"  # neither: a true negative


@dataclass(frozen=True)
class Place:
    """A line that an error or a finding is about; ``says``: the compiler's message, or the finding's."""

    file: str
    line: int
    verdict: Verdict
    says: str


@dataclass(frozen=True)
class Judged:
    """A unit that has a label; ``says``: its first error and its first finding, where it has one."""

    file: str
    verdict: Verdict
    says: tuple[str, ...]


@dataclass(frozen=True)
class Quality:
    """One tree: ``files`` of it, its units that have a label, those that have none with the reason, and places."""

    name: str
    files: int
    units: tuple[Judged, ...]
    unlabelled: tuple[tuple[str, str], ...]
    places: tuple[Place, ...]


# --- judging -----------------------------------------------------------------------------------------


def judge(unit: str, label: Label, findings: Sequence[Finding]) -> Judged:
    """A unit that has a label, against the findings of the tree."""
    here = _concerning(findings, unit, label)
    verdict = {
        (True, True): Verdict.HIT,
        (False, True): Verdict.ALARM,
        (True, False): Verdict.MISS,
        (False, False): Verdict.QUIET,
    }[bool(label.broken), bool(here)]
    says = [label.errors[0].text] if label.errors else []
    says += [_said(here[0])] if here else []
    return Judged(unit, verdict, tuple(says))


def _concerning(findings: Iterable[Finding], unit: str, label: Label) -> list[Finding]:
    """Those in files that the unit reads; where nvcc compiles it, headers that only a host compiler misses are none."""
    by_nvcc = unit.endswith(CUDA_SUFFIXES)
    return [
        f for f in findings if f.file in label.reads and not (by_nvcc and f.rule == "HDR-MOVED")
    ]


# At a header that is missing compilers stop: of what comes after it they say nothing.
_STOPS = re.compile(r"\b(?:fatal|catastrophic) error: ")
# Of a name that it does not find nvcc's front end speaks once in a unit, however often it is used.
_UNDEFINED = re.compile(r"identifier \"(\w+)\" is undefined")


def places_of(
    labels: Sequence[tuple[str, Label]], findings: Sequence[Finding], root: Path
) -> Iterator[Place]:
    """Where errors are, and whether a finding is about them; and findings about which there is no error.

    Of an error in a toolkit's header its place is the line of the tree that instantiates what is there. A finding
    is judged where a unit that has a label reads its file, and the compiler did not stop at a missing header. Errors
    that only follow from one that is found, a name that it kept from being declared, are none of their own.
    ``labels``: of units, by name.
    """
    errors: dict[tuple[str, int], Diagnostic] = {}
    explained: set[tuple[str, int]] = set()
    confirmed: set[Finding] = set()
    concerning: set[Finding] = set()
    for unit, each in labels:
        here = _concerning(findings, unit, each)
        if not any(_STOPS.search(error.text) for error in each.errors):
            concerning.update(here)
        for error in each.errors:
            about = [f for f in here if _explains(f, error, root)]
            confirmed.update(about)
            where = next((p for p in error.places if p[0] in each.reads), None)
            if where and about:
                explained.add(where)
            elif where:
                errors.setdefault(where, error)
        once = {match[1] for e in each.errors for match in _UNDEFINED.finditer(e.text)}
        confirmed.update(f for f in here if f.name.rpartition("::")[2] in once)
    found: dict[tuple[str, int], Place] = {}
    judged = concerning | confirmed
    for finding in findings:
        if finding not in judged:
            continue
        verdict = Verdict.HIT if finding in confirmed else Verdict.ALARM
        place = Place(finding.file, finding.line, verdict, _said(finding))
        key = finding.file, finding.line
        if key not in found or verdict is Verdict.HIT:
            found[key] = place
    yield from found.values()
    statements = [_statement(root, *where) for where in explained]
    for where in sorted(errors.keys() - explained):
        if not _follows(errors[where], statements):
            yield Place(*where, Verdict.MISS, errors[where].text)


def _follows(error: Diagnostic, statements: Iterable[str]) -> bool:
    """Whether an error is about a name that one of ``statements``, each with an error that is found, would declare."""
    match = _UNDEFINED.search(error.text)
    return match is not None and any(
        re.search(rf"\b{match[1]}\b", statement) for statement in statements
    )


def _statement(root: Path, file: str, line: int) -> str:
    """The text from ``line`` to where its statement ends."""
    lines = read_text(root / file).split("\n")
    return "\n".join(lines[line - 1 : line - 1 + _LINES]).partition(";")[0]


def _explains(finding: Finding, error: Diagnostic, root: Path) -> bool:
    """Whether an error is about a finding.

    What a header no longer brings in, the scanner says once in a file; and what a header of the tree holds for
    some sources alone, at their include of it.
    """
    if is_about(error, finding, root):
        return True
    lost = finding.rule == "INCLUDE-TRANSITIVE"
    if lost and any(
        file == finding.file and finding.name in _statement(root, file, line)
        for file, line in error.places
    ):
        return True
    word = re.escape(finding.name.rpartition("::")[2])
    if not re.search(rf"[\"'\u2018]{word}[\"'\u2019]", error.text):
        return False
    files = [file for file, _ in error.places]
    if lost and finding.file in files:
        return True
    return any(f"/{file}".endswith(f"/{finding.construct}") for file in files)


def _said(finding: Finding) -> str:
    return f"{finding.file}:{finding.line}: {finding.rule} {finding.name}: {finding.construct}"


def is_judged(finding: Finding) -> bool:
    """Whether compiling can show the finding: an active break that a front end meets."""
    active = finding.state is State.ACTIVE and finding.severity is Severity.BREAK
    return active and is_compiled(finding)


def evaluate(name: str, root: Path, compilers: Compilers, *, labels: Path, jobs: int) -> Quality:
    """Label the units of a tree, scan it, and compare.

    Args:
        name: of the tree in the report.
        labels: folder in which labels are kept.
        jobs: compilers at once.

    Raises:
        Fa3Error: there is no such folder, or nothing is known of the two toolkits.
    """
    if not root.is_dir():
        raise Fa3Error(f"{root}: no such folder; name the source tree of {name}")
    root = root.resolve()
    difference = load_difference(compilers.old.version, compilers.new.version)
    files = frozenset(item.file for item in walk(root) if isinstance(item, Listed))
    tree = Tree(root, files)
    units = units_of(tree, files, compilers)
    kept = Kept(labels, tree, compilers)
    made: list[Label] = []
    with progress(f"compile {name}", unit="units") as bar, ThreadPoolExecutor(jobs) as pool:
        for each in pool.map(kept.label, units):
            made.append(each)
            bar.update(len(made), len(units))
    findings = [f for f in scan(root, difference).findings if is_judged(f)]
    labelled = [
        (u.file, each) for u, each in zip(units, made, strict=True) if each.broken is not None
    ]
    return Quality(
        name,
        len(files),
        tuple(judge(unit, each, findings) for unit, each in labelled),
        tuple(
            (u.file, each.reason)
            for u, each in zip(units, made, strict=True)
            if each.broken is None
        ),
        tuple(places_of(labelled, findings, root)),
    )


# --- the report --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rate:
    """``hits`` of ``of``, with Clopper and Pearson's interval."""

    hits: int
    of: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """Lower and upper end, at 95 %; None of nothing."""
        if not self.of:
            return None
        from scipy import stats

        ends = stats.binomtest(self.hits, self.of).proportion_ci(_LEVEL, method="exact")
        return float(ends.low), float(ends.high)

    def __str__(self) -> str:
        return f"{self.hits / self.of:.3f}" if self.of else "-"


def rates(verdicts: Iterable[Verdict]) -> tuple[Rate, Rate]:
    """Precision and recall."""
    counts = Counter(verdicts)
    hits = counts[Verdict.HIT]
    return Rate(hits, hits + counts[Verdict.ALARM]), Rate(hits, hits + counts[Verdict.MISS])


def table(qualities: Sequence[Quality]) -> str:
    """Markdown: a row for each tree, and one for all."""
    head = (
        *("tree", "files", "units", "labelled", "broken"),
        *("TP", "FP", "FN", "TN", "precision", "recall"),
        *("lines TP", "FP", "FN", "precision", "recall"),
    )
    rows = [head, tuple("---" for _ in head)]
    rows += [_row(q.name, [q]) for q in qualities]
    if len(qualities) > 1:
        rows.append(_row("all", qualities))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(name: str, qualities: Sequence[Quality]) -> tuple[str, ...]:
    units = Counter(unit.verdict for q in qualities for unit in q.units)
    places = Counter(place.verdict for q in qualities for place in q.places)
    numbers = (
        sum(q.files for q in qualities),
        sum(len(q.units) + len(q.unlabelled) for q in qualities),
        units.total(),
        units[Verdict.HIT] + units[Verdict.MISS],
        *(units[v] for v in (Verdict.HIT, Verdict.ALARM, Verdict.MISS, Verdict.QUIET)),
        *rates(units.elements()),
        *(places[v] for v in (Verdict.HIT, Verdict.ALARM, Verdict.MISS)),
        *rates(places.elements()),
    )
    return (name, *map(str, numbers))


def report(qualities: Sequence[Quality], old: str, new: str) -> dict[str, Any]:
    """What is written to the file."""
    units = rates(unit.verdict for q in qualities for unit in q.units)
    places = rates(place.verdict for q in qualities for place in q.places)
    totals = {
        what: {
            name: {"hits": rate.hits, "of": rate.of, "interval": rate.interval}
            for name, rate in zip(("precision", "recall"), pair, strict=True)
        }
        for what, pair in (("units", units), ("places", places))
    }
    trees = [dataclasses.asdict(quality) for quality in qualities]
    return {"from": old, "to": new, "level": _LEVEL, "totals": totals, "trees": trees}


def main(arguments: list[str] | None = None) -> int:
    """Evaluates the trees; 0, or 1 where it could not be done."""
    parser = argparse.ArgumentParser(
        prog="python -m fa3_matrix.migrate.evaluate", description=__doc__
    )
    parser.add_argument(
        "trees", nargs="+", metavar="[NAME=]TREE", help="folder, and its name in the report"
    )
    parser.add_argument("--from", dest="old", default="12.4", metavar="VERSION")
    parser.add_argument("--to", dest="new", default="13.3", metavar="VERSION")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--jobs", type=int, default=1, help="compilers at once")
    for side in ("from", "to"):
        parser.add_argument(
            f"--{side}-include",
            type=Path,
            action="append",
            default=[],
            help=f"folder of headers that the toolkit of --{side} lacks",
        )
    options = parser.parse_args(arguments)
    with needs("gate,migrate", 1):
        import scipy  # noqa: F401  (for the intervals, which come after hours of compiling)

        return _evaluate(options)


def _evaluate(options: argparse.Namespace) -> int:
    try:
        compilers = Compilers(
            find(options.old),
            find(options.new),
            tuple(options.from_include),
            tuple(options.to_include),
        )
        qualities = []
        for given in options.trees:
            name, _, folder = given.rpartition("=")
            root = Path(folder)
            qualities.append(
                evaluate(
                    name or root.resolve().name,
                    root,
                    compilers,
                    labels=cache_dir() / "labels",
                    jobs=options.jobs,
                )
            )
            # After each tree: what is there may be read while the next is compiled.
            _json.write_atomic(options.out, report(qualities, options.old, options.new))
    except Fa3Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(table(qualities), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
