"""Why a cell may have moved: what differs between two arms' builds of a variant, likeliest cause first.

A hint is an association: the difference is there and points the way the time moved, which proves nothing. SASS of two
toolkits nearly always differs, so causes are ranked by how surely they cost time, spills first, not by size. Where both
arms were profiled, what hardware counters saw stands beside what the builds say.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from fa3_matrix.bench.profile_metrics import METRICS, Group, Metric
from fa3_matrix.build.manifest import AssemblyRecord, Manifest, VariantRecord
from fa3_matrix.gate.static import wgmma_advisories

_LOCAL = ("LDL", "STL")
_WAITS = ("WARPGROUP", "WARPSYNC", "DEPBAR")
# Warpgroups hand registers to each other by this; those at launch are then the average of what they work with.
_REDISTRIBUTE = "USETMAXREG"
# NVML reports SM clocks in steps of 15 MHz: two medians a step apart may be of one clock.
_CLOCK_STEP_MHZ = 15
_OPCODES_SHOWN = 5
_COUNTERS_SHOWN = 3
# Of what a counter is measured by: three profiles of one build differed by up to 0.5% (docs/profiling.md).
_LEAST_CHANGE = 0.02


class Cause(StrEnum):
    """What a hint names, in the order of the ranking. The values are stable."""

    OTHER_VARIANT = "other-variant"
    SAME_SASS = "same-sass"
    FP64 = "fp64"
    SPILLS = "spills"
    LOCAL_TRAFFIC = "local-traffic"
    LOCAL_MEMORY = "local-memory"
    OCCUPANCY = "occupancy"
    MEASURED_OCCUPANCY = "measured-occupancy"
    TENSOR_INSTRUCTIONS = "tensor-instructions"
    ADVISORIES = "advisories"
    STALLS = "stalls"
    WAITS = "waits"
    SHARED_MEMORY = "shared-memory"
    MEMORY_TRAFFIC = "memory-traffic"
    EXECUTED_INSTRUCTIONS = "executed-instructions"
    INSTRUCTIONS = "instructions"
    TENSOR_ACTIVITY = "tensor-activity"
    INSTRUCTION_MIX = "instruction-mix"
    SCHEDULE = "schedule"
    CLOCKS = "clocks"
    COMPILER = "compiler"


# Counters of time explain nothing: they are what is to be explained.
_COUNTED: dict[Group, Cause] = {
    "fp64": Cause.FP64,
    "local-memory": Cause.LOCAL_TRAFFIC,
    "occupancy": Cause.MEASURED_OCCUPANCY,
    "stalls": Cause.STALLS,
    "shared-memory": Cause.SHARED_MEMORY,
    "memory-traffic": Cause.MEMORY_TRAFFIC,
    "instructions": Cause.EXECUTED_INSTRUCTIONS,
    "tensor": Cause.TENSOR_ACTIVITY,
}


@dataclass(frozen=True)
class Arm:
    """One arm: its build of the variant and the compiler that made it.

    ``assembled`` as in its manifest. Of its timed samples: median SM clock and power; None: not measured. ``counters``:
    what a profile counted of the call (`fa3_matrix.bench.profile.counters`); what is not there was not counted.
    """

    variant: VariantRecord
    nvcc: str
    flags: list[str]
    assembled: AssemblyRecord | None = None
    sm_mhz: float | None = None
    watts: float | None = None
    counters: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        build: Manifest,
        variant: str,
        *,
        sm_mhz: float | None = None,
        watts: float | None = None,
        counters: Mapping[str, float] | None = None,
    ) -> "Arm":
        """Take a variant out of a build's manifest.

        Raises:
            BuildError: the build has no such variant.
        """
        record = build.variant(variant)
        return cls(
            record,
            build.toolkit.nvcc,
            build.flags,
            build.assembled,
            sm_mhz,
            watts,
            counters or {},
        )


@dataclass(frozen=True)
class Delta:
    """One figure in both arms."""

    base: float
    head: float


@dataclass(frozen=True)
class Hint:
    """One association; ``deltas`` are the figures behind ``text``, by what they are of (units as in the text)."""

    cause: Cause
    text: str
    deltas: dict[str, Delta]


def explain(base: Arm, head: Arm, *, slower: bool) -> list[Hint]:
    """What the move is associated with, likeliest first; never empty.

    Args:
        base: the arm compared with.
        head: the variant that the other arm used: base's, unless the choice of variants changed.
        slower: whether head took longer. What got better is no hint of why head is slower, nor the other way round.
    """
    code = list(_of_code(base, head, slower=slower))
    for name, arm in (("base", base), ("head", head)):
        if arm.assembled:
            note = f"; {name} is PTX, here as ptxas {arm.assembled.ptxas} assembles it and not a driver"
            code = [replace(hint, text=hint.text + note) for hint in code]
    measured = [*_counters(base, head, slower=slower), *_clocks(base, head, slower=slower)]
    order = [*Cause]
    return sorted(
        [*code, *measured, *_compiler(base, head)], key=lambda hint: order.index(hint.cause)
    )


def _of_code(base: Arm, head: Arm, *, slower: bool) -> Iterator[Hint]:
    a, b = base.variant, head.variant
    if a.sass.sha256 == b.sass.sha256:
        yield _same_sass(a, b)
        yield from _occupancy(a, b, slower=slower)
        return
    if a.name != b.name:
        yield Hint(
            Cause.OTHER_VARIANT, f"associated with another variant: {b.name}, base {a.name}", {}
        )
    yield from _spills(a, b, slower=slower)
    yield from _opcodes(Cause.LOCAL_MEMORY, "local loads and stores", _LOCAL, a, b, slower=slower)
    yield from _occupancy(a, b, slower=slower)
    yield from _tensor_instructions(a, b)
    yield from _advisories(a, b, slower=slower)
    yield from _opcodes(Cause.WAITS, "waiting instructions", _WAITS, a, b, slower=slower)
    yield from _instructions(a, b, slower=slower)
    yield from _instruction_mix(a, b)


def _same_sass(a: VariantRecord, b: VariantRecord) -> Hint:
    # A split-KV variant's SASS is of its first kernel alone.
    beside = ", its combine and append kernels" if a.splits_keys and a.sha256 != b.sha256 else ""
    text = (
        "associated with nothing in the kernel, whose instructions are the same in both arms: "
        f"look at the host library{beside}, the driver or noise"
    )
    return Hint(Cause.SAME_SASS, text, {})


def _spills(a: VariantRecord, b: VariantRecord, *, slower: bool) -> Iterator[Hint]:
    before, after = (v.spill_store_bytes + v.spill_load_bytes for v in (a, b))
    if _points(before, after, slower=slower):
        text = (
            f"associated with {_more(before, after)} bytes spilled a thread: {after}, base {before}"
        )
        yield Hint(Cause.SPILLS, text, {"spill bytes": Delta(before, after)})


def _opcodes(
    cause: Cause,
    what: str,
    opcodes: Collection[str],
    a: VariantRecord,
    b: VariantRecord,
    *,
    slower: bool,
) -> Iterator[Hint]:
    """A hint where the sum of some opcodes moved."""
    deltas = _changed(opcodes, a, b)
    before = sum(delta.base for delta in deltas.values())
    after = sum(delta.head for delta in deltas.values())
    if _points(before, after, slower=slower):
        text = f"associated with {_more(before, after)} {what}: {_listed(deltas)}"
        yield Hint(cause, text, deltas)


def _occupancy(a: VariantRecord, b: VariantRecord, *, slower: bool) -> Iterator[Hint]:
    """A hint where the number of CTAs an SM steps.

    Not where it is merely low, as in warp-specialised kernels by design, nor where registers moved without a step. Of
    a kernel that redistributes registers their number at launch is left out.
    """
    before, after = a.occupancy.ctas_per_sm, b.occupancy.ctas_per_sm
    if not _points(before, after, slower=not slower):
        return
    figures = {
        "shared memory": Delta(
            a.static_shared_bytes + a.dynamic_shared_bytes,
            b.static_shared_bytes + b.dynamic_shared_bytes,
        ),
    }
    if not any(_REDISTRIBUTE in variant.sass.opcodes for variant in (a, b)):
        figures["registers a thread"] = Delta(a.registers, b.registers)
    moved = {name: delta for name, delta in figures.items() if delta.base != delta.head}
    why = f" ({_listed(moved)})" if moved else ""
    text = f"associated with {_more(before, after)} CTAs on an SM: {after}, base {before}{why}"
    yield Hint(Cause.OCCUPANCY, text, {"CTAs an SM": Delta(before, after), **moved})


def _tensor_instructions(a: VariantRecord, b: VariantRecord) -> Iterator[Hint]:
    """Any change counts: fewer may be another instruction of more work each, or the reverse."""
    names = a.sass.opcodes.keys() | b.sass.opcodes.keys()
    # HMMA and its like of other types, HGMMA (wgmma), UTCHMMA and its like (tcgen05).
    deltas = _changed([name for name in names if name.endswith("MMA")], a, b)
    if deltas:
        text = f"associated with other tensor-core instructions: {_listed(deltas)}"
        yield Hint(Cause.TENSOR_INSTRUCTIONS, text, deltas)


def _advisories(a: VariantRecord, b: VariantRecord, *, slower: bool) -> Iterator[Hint]:
    before, after = wgmma_advisories(a.advisories), wgmma_advisories(b.advisories)
    gained, other, has = (after, before, "head") if slower else (before, after, "base")
    lines = {code: line for code, line in gained.items() if code not in other}
    if lines:
        text = f"associated with what the compiler says of {has} alone: {'; '.join(lines.values())}"
        deltas = {code: Delta(int(code in before), int(code in after)) for code in lines}
        yield Hint(Cause.ADVISORIES, text, deltas)


def _instructions(a: VariantRecord, b: VariantRecord, *, slower: bool) -> Iterator[Hint]:
    before, after = a.sass.instructions, b.sass.instructions
    if _points(before, after, slower=slower):
        share = after / before - 1
        text = (
            f"associated with {_more(before, after)} instructions: {after}, base {before} ({share:+.1%}); "
            f"the fatbin is {b.bytes} bytes, base {a.bytes}"
        )
        deltas = {"instructions": Delta(before, after), "fatbin bytes": Delta(a.bytes, b.bytes)}
        yield Hint(Cause.INSTRUCTIONS, text, deltas)


def _instruction_mix(a: VariantRecord, b: VariantRecord) -> Iterator[Hint]:
    deltas = _changed(a.sass.opcodes.keys() | b.sass.opcodes.keys(), a, b)
    if not deltas:
        text = "associated with the same opcodes in another order, on other operands or with other stalls"
        yield Hint(Cause.SCHEDULE, text, {})
        return
    # Bray-Curtis: 0 for equal histograms, 1 for histograms that share no opcode.
    changed = sum(abs(delta.head - delta.base) for delta in deltas.values())
    distance = changed / (sum(a.sass.opcodes.values()) + sum(b.sass.opcodes.values()))
    largest = dict(list(deltas.items())[:_OPCODES_SHOWN])
    text = (
        f"associated with another mix of opcodes (distance {distance:.3f} of 1): {_listed(largest)}"
    )
    yield Hint(Cause.INSTRUCTION_MIX, text, largest)


def _counters(base: Arm, head: Arm, *, slower: bool) -> Iterator[Hint]:
    """A hint for each group of counters of which one moved, largest share first."""
    for group, cause in _COUNTED.items():
        shares = {
            metric: share
            for metric in METRICS
            if metric.group == group
            and (share := _change(metric, base.counters, head.counters, slower=slower))
        }
        largest = sorted(shares, key=lambda metric: -shares[metric])[:_COUNTERS_SHOWN]
        deltas = {
            metric.meaning: Delta(base.counters[metric.key], head.counters[metric.key])
            for metric in largest
        }
        if deltas:
            moves = zip(largest, deltas.values(), strict=True)
            listed = ", ".join(_counted(metric, delta) for metric, delta in moves)
            yield Hint(cause, f"associated with {listed}", deltas)


def _change(
    metric: Metric, base: Mapping[str, float], head: Mapping[str, float], *, slower: bool
) -> float:
    """How far a counter moved in the way that the time did, as a share of its scale; 0 for what is within noise.

    A counter that only one arm has is missing, and says nothing.
    """
    if metric.slower is None or metric.key not in base or metric.key not in head:
        return 0.0
    before, after = base[metric.key], head[metric.key]
    if not _points(before, after, slower=slower == (metric.slower == "more")):
        return 0.0
    # The larger of both arms', so that it is the same read from the other side.
    scale = max(counters.get(metric.scale, 0) for counters in (base, head)) or max(before, after)
    share = abs(after - before) / scale
    return share if share >= _LEAST_CHANGE else 0.0


def _counted(metric: Metric, delta: Delta) -> str:
    if metric.unit == "%":
        word = "higher" if delta.head > delta.base else "lower"
        return f"{word} {metric.meaning}: {delta.head:.1f}% (base {delta.base:.1f}%)"
    moved = f", {delta.head / delta.base - 1:+.1%}" if delta.base else ""
    more = _more(delta.base, delta.head)
    return f"{more} {metric.meaning}: {delta.head:.0f} (base {delta.base:.0f}{moved})"


def _clocks(base: Arm, head: Arm, *, slower: bool) -> Iterator[Hint]:
    if base.sm_mhz is None or head.sm_mhz is None:
        return
    lower = base.sm_mhz - head.sm_mhz if slower else head.sm_mhz - base.sm_mhz
    if lower <= _CLOCK_STEP_MHZ:
        return
    deltas = {"SM clock in MHz": Delta(base.sm_mhz, head.sm_mhz)}
    # Power alone slows nothing; beside a clock it tells a capped arm from one that the machine held back.
    if base.watts is not None and head.watts is not None:
        deltas["power in W"] = Delta(base.watts, head.watts)
    word = "lower" if slower else "higher"
    yield Hint(Cause.CLOCKS, f"associated with a {word} clock: {_listed(deltas)}", deltas)


def _compiler(base: Arm, head: Arm) -> Iterator[Hint]:
    """Last: what was changed, while the others say what came of it."""
    if base.variant.sass.sha256 == head.variant.sass.sha256:
        return
    changes = []
    if base.nvcc != head.nvcc:
        changes.append(f"nvcc {head.nvcc}, base {base.nvcc}")
    for arm, other, has in ((head, base, "head"), (base, head, "base")):
        if flags := [flag for flag in arm.flags if flag not in other.flags]:
            changes.append(f"flags that {has} alone has: {' '.join(flags)}")
    if changes:
        yield Hint(Cause.COMPILER, f"associated with another compiler: {'; '.join(changes)}", {})


def _points(before: float, after: float, *, slower: bool) -> bool:
    """Whether a figure of which more is slower moved the way the time did."""
    return after > before if slower else after < before


def _more(before: float, after: float) -> str:
    return "more" if after > before else "fewer"


def _changed(opcodes: Collection[str], a: VariantRecord, b: VariantRecord) -> dict[str, Delta]:
    """The counts that differ, largest change first."""
    counts = {
        name: Delta(a.sass.opcodes.get(name, 0), b.sass.opcodes.get(name, 0)) for name in opcodes
    }
    changed = [item for item in counts.items() if item[1].base != item[1].head]
    return dict(sorted(changed, key=lambda item: (-abs(item[1].head - item[1].base), item[0])))


def _listed(deltas: dict[str, Delta]) -> str:
    return ", ".join(
        f"{name} {delta.head:.0f} (base {delta.base:.0f})" for name, delta in deltas.items()
    )
