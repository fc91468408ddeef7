"""The gate for machines without a GPU: head's build of a cell against base's, by what the compilers say of both.

Each rule of :class:`Rule` is held to ``[gate.static]`` of ``ci/matrix.toml``, and ``[[gate.waivers]]`` there lets a
finding pass until a date. What could not be checked is named, with the reason: it never counts as a pass.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from enum import StrEnum
from typing import Any, Literal

from fa3_matrix import _json
from fa3_matrix.build.compare import Side
from fa3_matrix.build.manifest import Manifest, VariantRecord
from fa3_matrix.build.ptxas import Advisory
from fa3_matrix.gate.outcome import Outcome
from fa3_matrix.matrix.gate import GateWaiver, StaticLimits

EXIT_PASS, EXIT_FAIL = Outcome.PASS.exit_code, Outcome.FAIL.exit_code

Verdict = Literal["pass", "fail", "no-pair"]
Value = int | float | str | None


class Rule(StrEnum):
    """What may not happen from base to head. The values are stable: waivers and reports name them."""

    NEW_SPILL = "new-spill"
    NEW_ADVISORY = "new-advisory"
    LOST_OCCUPANCY = "lost-occupancy"
    SASS_GROWTH = "sass-growth"
    WHEEL_SIZE = "wheel-size"
    BUILD_TIME = "build-time"
    BUILD_MEMORY = "build-memory"
    LOST_VARIANT = "lost-variant"


# Those that say nothing of a cell that only head has.
_NEED_BASE = (
    Rule.NEW_SPILL,
    Rule.NEW_ADVISORY,
    Rule.LOST_OCCUPANCY,
    Rule.SASS_GROWTH,
    Rule.LOST_VARIANT,
)


@dataclass(frozen=True)
class Pair:
    """One cell's builds; None: there is none. A wheel's size is None where no wheel was made.

    ``same_machine``: whether both were built on one machine with as many compilers at once, so that their build
    times compare.
    """

    cell: str
    base: Manifest | None
    head: Manifest | None
    base_wheel_bytes: int | None = None
    head_wheel_bytes: int | None = None
    same_machine: bool = False

    def __post_init__(self) -> None:
        builds = [build for build in (self.base, self.head) if build is not None]
        if not builds:
            raise ValueError(f"{self.cell}: neither base nor head has a build; give at least one")
        for build in builds:
            if build.cell != self.cell:
                raise ValueError(
                    f"a build of {build.cell} was given for {self.cell}; pair one cell's"
                )


@dataclass(frozen=True)
class Finding:
    """One broken rule. ``variant`` is empty where the rule is of the cell as a whole.

    ``base``, ``head`` and ``limit`` share a unit: bytes (spills: a thread), CTAs an SM, instructions, seconds, or how
    many variants; of an advisory ``head`` is the compiler's line. ``limit`` is the most (of CTAs and variants the
    fewest) that passes; ``base`` is None where base has no such figure.
    """

    rule: Rule
    cell: str
    variant: str
    base: Value
    head: Value
    limit: Value
    message: str
    waiver: GateWaiver | None = None


@dataclass(frozen=True)
class CellResult:
    """One cell. ``not_checked``: why, by rule; ``new_variants``: only head has them, so that nothing was compared."""

    cell: str
    verdict: Verdict
    base_revision: str | None
    head_revision: str | None
    compared: int
    same_sass: int
    new_variants: list[str]
    not_checked: dict[Rule, str]


@dataclass(frozen=True)
class WaiverRemark:
    """A waiver that should go or change, and why."""

    waiver: GateWaiver
    state: Literal["expired", "unused", "unknown rule"]
    message: str


@dataclass(frozen=True)
class StaticResult:
    """What the static gate says of one head."""

    today: date
    limits: StaticLimits
    cells: list[CellResult]
    findings: list[Finding]
    waiver_remarks: list[WaiverRemark]

    @property
    def verdict(self) -> Verdict:
        """ "fail" where a cell fails, else "no-pair" where one lacks a base or a head, else "pass"."""
        verdicts = {cell.verdict for cell in self.cells}
        if "fail" in verdicts:
            return "fail"
        return "no-pair" if "no-pair" in verdicts else "pass"

    @property
    def exit_code(self) -> int:
        """:data:`EXIT_FAIL` for a finding that no waiver covers, else :data:`EXIT_PASS`."""
        return EXIT_FAIL if self.verdict == "fail" else EXIT_PASS

    def as_json(self) -> dict[str, Any]:
        """The result as JSON data: ``schema``, then the fields of this class, dates as ISO 8601."""
        return {
            "schema": _json.SCHEMA,
            "kind": "static-gate",
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "today": self.today.isoformat(),
            "limits": asdict(self.limits),
            "cells": [asdict(cell) for cell in self.cells],
            "findings": [
                {**asdict(finding), "waiver": _waiver_json(finding.waiver)}
                for finding in self.findings
            ],
            "waiver_remarks": [
                {**asdict(remark), "waiver": _waiver_json(remark.waiver)}
                for remark in self.waiver_remarks
            ],
        }


def check(
    pairs: Sequence[Pair],
    limits: StaticLimits,
    waivers: Collection[GateWaiver],
    *,
    today: date,
) -> StaticResult:
    """Hold each cell's head to its base and to the budgets.

    Args:
        pairs: a cell each; those of base that head no longer has belong there too.
        today: the day that waivers are held to; one covers until the end of its last day.

    Raises:
        ValueError: there is no pair, or a cell is there twice.
    """
    names = [pair.cell for pair in pairs]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"each cell once, and at least one, must be given; given: {names}")
    live = [waiver for waiver in waivers if not waiver.expired(today)]
    cells, findings = [], []
    for pair in pairs:
        found = [_covered(finding, live) for finding in _findings(pair, limits)]
        findings += found
        cells.append(_cell_result(pair, found))
    return StaticResult(
        today=today,
        limits=limits,
        cells=cells,
        findings=findings,
        waiver_remarks=list(_remarks(waivers, today, cells, findings)),
    )


def _cell_result(pair: Pair, findings: list[Finding]) -> CellResult:
    base = {variant.name: variant for variant in pair.base.variants} if pair.base else {}
    head = {variant.name: variant for variant in pair.head.variants} if pair.head else {}
    shared = base.keys() & head.keys()
    verdict: Verdict = "pass" if pair.base and pair.head else "no-pair"
    if any(finding.waiver is None for finding in findings):
        verdict = "fail"
    return CellResult(
        cell=pair.cell,
        verdict=verdict,
        base_revision=_revision(pair.base),
        head_revision=_revision(pair.head),
        compared=len(shared),
        same_sass=sum(base[name].sass.sha256 == head[name].sass.sha256 for name in shared),
        new_variants=[name for name in head if name not in base],
        not_checked=dict(_not_checked(pair)),
    )


def _revision(build: Manifest | None) -> str | None:
    if build is None or build.git_revision is None:
        return None
    return build.git_revision + ("-dirty" if build.git_dirty else "")


def _not_checked(pair: Pair) -> Iterator[tuple[Rule, str]]:
    if pair.head is None:
        for rule in Rule:
            if rule is not Rule.LOST_VARIANT:
                yield rule, "head has no build of this cell"
        return
    if pair.base is None:
        for rule in _NEED_BASE:
            yield rule, "base has no build of this cell"
        yield Rule.BUILD_TIME, "held to the budget alone: base has no build of this cell"
    elif not pair.same_machine:
        yield (
            Rule.BUILD_TIME,
            "held to the budget alone: base and head were not built on one machine",
        )
    if pair.head_wheel_bytes is None:
        yield Rule.WHEEL_SIZE, "no wheel of this cell was made"


def _findings(pair: Pair, limits: StaticLimits) -> Iterator[Finding]:
    cell, base, head = pair.cell, pair.base, pair.head
    if head is None:
        count = len(base.variants) if base else 0
        happened = f"head has no build of {cell}, base has one of {count} variants"
        yield _finding(Rule.LOST_VARIANT, cell, "", (count, 0, count), happened, "build the cell")
        return
    if base is not None:
        kept = {variant.name: variant for variant in head.variants}
        for variant in base.variants:
            if variant.name in kept:
                yield from _variant(cell, variant, kept[variant.name], limits)
            else:
                happened = f"head no longer builds {variant.name}"
                remedy = "state it again in ci/matrix.toml"
                yield _finding(Rule.LOST_VARIANT, cell, variant.name, (1, 0, 1), happened, remedy)
    yield from _wheel_size(pair, limits)
    yield from _build_time(pair, head, limits)
    yield from _build_memory(pair, head, limits)


def _finding(
    rule: Rule,
    cell: str,
    variant: str,
    values: tuple[Value, Value, Value],
    happened: str,
    remedy: str,
) -> Finding:
    """``values``: base, head and limit."""
    message = f"{happened}: {remedy}, or state a [[gate.waivers]] row with a reason"
    return Finding(rule, cell, variant, *values, message)


def _variant(
    cell: str, base: VariantRecord, head: VariantRecord, limits: StaticLimits
) -> Iterator[Finding]:
    name, a, b = head.name, Side.of(base), Side.of(head)
    if b.spill_bytes > a.spill_bytes:
        happened = f"{name} spills {b.spill_bytes} bytes a thread, base {a.spill_bytes}"
        values = (a.spill_bytes, b.spill_bytes, a.spill_bytes)
        remedy = "give it fewer min_blocks or a smaller tile"
        yield _finding(Rule.NEW_SPILL, cell, name, values, happened, remedy)
    known = wgmma_advisories(a.advisories)
    for code, line in wgmma_advisories(b.advisories).items():
        if code not in known:
            happened = f"the compiler says {code} of {name}, which it did not of base's"
            remedy = "touch no accumulator between a wgmma and its wait"
            yield _finding(Rule.NEW_ADVISORY, cell, name, (None, line, None), happened, remedy)
    if b.ctas_per_sm < a.ctas_per_sm:
        happened = f"{b.ctas_per_sm} CTAs of {name} fit on an SM, of base's {a.ctas_per_sm}"
        values = (a.ctas_per_sm, b.ctas_per_sm, a.ctas_per_sm)
        remedy = f"let it take less of what limits it, {b.occupancy_limit}"
        yield _finding(Rule.LOST_OCCUPANCY, cell, name, values, happened, remedy)
    most = _grown(a.instructions, limits.sass_growth)
    if b.instructions > most:
        happened = (
            f"{name} grew from {a.instructions} to {b.instructions} instructions, "
            f"{limits.sass_growth:.0%} are allowed"
        )
        remedy = "look for what is unrolled or inlined anew"
        grown = (a.instructions, b.instructions, most)
        yield _finding(Rule.SASS_GROWTH, cell, name, grown, happened, remedy)


def wgmma_advisories(lines: list[str]) -> dict[str, str]:
    """The first line of each number of the C75xx family among a variant's ``advisories``, by number."""
    found: dict[str, str] = {}
    for line in lines:
        code, _, text = line.partition(" ")
        if Advisory(code, text).is_serialisation:
            found.setdefault(code, line)
    return found


def _wheel_size(pair: Pair, limits: StaticLimits) -> Iterator[Finding]:
    size, most = pair.head_wheel_bytes, limits.wheel_bytes
    if size is not None and size > most:
        happened = (
            f"the wheel of {pair.cell} is {size / 1e6:.2f} MB, {most / 1e6:.2f} MB are allowed"
        )
        values = (pair.base_wheel_bytes, size, most)
        yield _finding(Rule.WHEEL_SIZE, pair.cell, "", values, happened, "leave out variants")


def _build_time(pair: Pair, head: Manifest, limits: StaticLimits) -> Iterator[Finding]:
    seconds = head.build_seconds
    before = pair.base.build_seconds if pair.base else None
    took = f"{pair.cell} compiled for {seconds:.1f} s"
    if seconds > limits.build_seconds:
        happened = f"{took}, {limits.build_seconds} s are allowed"
        values = (before, seconds, limits.build_seconds)
        yield _finding(Rule.BUILD_TIME, pair.cell, "", values, happened, "leave out variants")
    if before is None or not pair.same_machine:
        return
    most = _grown(before, limits.build_growth)
    if seconds > most:
        happened = f"{took}, base for {before:.1f} s, {limits.build_growth:.0%} more are allowed"
        remedy = "look for the variants whose compile_seconds grew"
        yield _finding(Rule.BUILD_TIME, pair.cell, "", (before, seconds, most), happened, remedy)


def _build_memory(pair: Pair, head: Manifest, limits: StaticLimits) -> Iterator[Finding]:
    peak, most = head.peak_compiler_bytes, limits.compiler_bytes
    if peak > most:
        happened = (
            f"a compiler of {pair.cell} took {peak / 1e9:.2f} GB, {most / 1e9:.2f} GB are allowed"
        )
        largest = max(head.variants, key=lambda variant: variant.peak_compiler_bytes)
        values = (pair.base.peak_compiler_bytes if pair.base else None, peak, most)
        remedy = f"give {largest.name} a smaller tile"
        yield _finding(Rule.BUILD_MEMORY, pair.cell, "", values, happened, remedy)


def _grown(base: float, growth: float) -> float:
    """The most that ``base`` may grow to; rounded, so that 100 grown by 15% is 115 and not a little less."""
    return round(base * (1 + growth), 6)


def _covered(finding: Finding, live: list[GateWaiver]) -> Finding:
    """The finding with the waiver that covers it longest, if any does."""
    covering = [waiver for waiver in live if _covers(waiver, finding)]
    waiver = max(covering, key=lambda waiver: waiver.expires, default=None)
    return replace(finding, waiver=waiver)


def _covers(waiver: GateWaiver, finding: Finding) -> bool:
    return waiver.covers(finding.cell, finding.variant, finding.rule)


def _remarks(
    waivers: Collection[GateWaiver],
    today: date,
    cells: list[CellResult],
    findings: list[Finding],
) -> Iterator[WaiverRemark]:
    for waiver in waivers:
        what = f"the waiver of {waiver.rule} for {waiver.cell}, {waiver.variant}"
        if waiver.rule not in [*Rule]:
            rules = ", ".join(Rule)
            yield WaiverRemark(
                waiver, "unknown rule", f"{what} covers nothing: the rules are {rules}; correct it"
            )
        elif waiver.expired(today):
            yield WaiverRemark(
                waiver,
                "expired",
                f"{what} expired after {waiver.expires}: mend what it covered, then remove it",
            )
        elif not any(_covers(waiver, finding) for finding in findings) and any(
            # What was not checked might have needed it.
            waiver.covers(cell.cell, waiver.variant, waiver.rule)
            and waiver.rule not in cell.not_checked
            for cell in cells
        ):
            yield WaiverRemark(
                waiver, "unused", f"{what} covered nothing in the cells checked: remove it"
            )


def _waiver_json(waiver: GateWaiver | None) -> dict[str, str] | None:
    return {**asdict(waiver), "expires": waiver.expires.isoformat()} if waiver else None
