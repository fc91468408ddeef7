"""One page that loads nothing: what a scan found, all that changed between the toolkits, and what probes observed.

Made of data as the JSON format has it, so that it can be made later and elsewhere than the scan. Needs jinja2, which
the extra `cli` installs.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from fa3_matrix.migrate.difference import Change, Difference
from fa3_matrix.migrate.formats import json
from fa3_matrix.migrate.result import Result
from fa3_matrix.migrate.rules import RULES, Proof, Severity

Json = dict[str, Any]

# Of findings on a page, which browsers still show and filter at once; the worst come first.
LIMIT = 2_000

PROOFS = {
    Proof.DOCUMENTATION: "it is documented",
    Proof.HEADERS: "the toolkits' headers differ so",
    Proof.WITNESS: "both compilers were given a minimal program, and differ so",
    Proof.COMPILED: "both compilers were given this very file",
    Proof.LINKED: "and the linkers what they made of it",
}


def result(result: Result) -> str:
    """Of a scan, and the difference that was looked for."""
    return page(json.of_result(result), result.difference)


def difference(difference: Difference, changes: tuple[Change, ...]) -> str:
    """Of two toolkits: ``changes``, all or some of the difference's."""
    return page(None, replace(difference, changes=changes))


def page(
    scan: Json | None,
    difference: Difference,
    behaviour: Json | None = None,
    remarks: Sequence[str] = (),
) -> str:
    """The page.

    Args:
        scan: as `json.of_result` gives it; None: no tree was scanned.
        difference: of the same toolkits, or some of its changes.
        behaviour: what the probes observed, as they write it; None: they were not run.
        remarks: sentences to begin with; `commands` in backticks.
    """
    from fa3_matrix import _page

    environment = _page.environment("fa3_matrix.migrate.formats", autoescape=True)
    changes = difference.changes
    return environment.get_template("migration.html.j2").render(
        scan=scan,
        limit=LIMIT,
        difference=difference,
        glance=glance(changes),
        releases=_releases(changes),
        severities={severity: _of(severity, changes) for severity in Severity},
        behaviour=behaviour and observed(behaviour),
        remarks=remarks,
        rules=RULES,
        proofs=PROOFS,
        advice=advice,
    )


def glance(changes: Iterable[Change]) -> list[Json]:
    """The difference in a row a rule, severest first: how many changes, since which release, and how proved."""
    of_rule: dict[str, list[Change]] = {}
    for change in changes:
        of_rule.setdefault(change.rule, []).append(change)
    order = list(Severity)
    return [
        {
            "rule": RULES[rule],
            "total": len(found),
            "since": Counter(change.since or "unknown" for change in found),
            "proof": Counter(change.proof for change in found),
        }
        for rule, found in sorted(
            of_rule.items(), key=lambda item: (order.index(RULES[item[0]].severity), -len(item[1]))
        )
    ]


def observed(behaviour: Json) -> Json:
    """The probes' document, each with ``differs``: the cases in which both toolkits were observed, and not alike."""
    return behaviour | {
        "probes": [probe | {"differs": _differs(probe["runs"])} for probe in behaviour["probes"]]
    }


def advice(change: Change) -> list[str]:
    """What the row of a change says besides how it was and is: which calls break, what brings a name in no more."""
    said = []
    for call in change.broken_calls:
        if change.kind == "cccl-template":
            said.append(f"refused with {call.arguments} template arguments")
            continue
        what = f"argument {call.position + 1}: {call.old or 'none'}, now {call.new or 'none'}"
        surely = "" if call.certain else ", if its type is that of this overload"
        said.append(f"calls of {call.arguments} break{surely} ({what})")
    if change.lost_from:
        said.append(f"no longer brought in by {', '.join(change.lost_from)}")
    return said


def _differs(runs: Sequence[Json]) -> list[str]:
    if any(run["status"] != "observed" for run in runs):
        return []
    cases = dict.fromkeys(case for run in runs for case in run["observed"])
    seen = runs[0]["observed"]
    return [c for c in cases if any(run["observed"].get(c) != seen.get(c) for run in runs)]


def _of(severity: Severity, changes: Iterable[Change]) -> int:
    return sum(RULES[change.rule].severity is severity for change in changes)


def _releases(changes: Iterable[Change]) -> list[str]:
    from fa3_matrix.migrate.store import order

    found = {change.since for change in changes}
    named = sorted((release for release in found if release), key=order)
    return [*named, *(["unknown"] if None in found else [])]
