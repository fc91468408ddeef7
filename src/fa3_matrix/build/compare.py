"""Two builds side by side, variant by variant: what another toolkit or another commit made of the same kernels."""

from dataclasses import asdict, dataclass
from pathlib import Path

from fa3_matrix import _json
from fa3_matrix.build.driver import Build
from fa3_matrix.build.manifest import VariantRecord


@dataclass(frozen=True)
class Side:
    """One build's figures of one variant. Sizes in bytes, spills (stores plus loads) and stack in bytes a thread."""

    registers: int
    spill_bytes: int
    stack_bytes: int
    static_shared_bytes: int
    dynamic_shared_bytes: int
    instructions: int
    ctas_per_sm: int
    warps_per_sm: int
    occupancy_limit: str
    bytes: int
    compile_seconds: float
    advisories: list[str]

    @classmethod
    def of(cls, variant: VariantRecord) -> "Side":
        """Take the figures out of a manifest's variant."""
        return cls(
            registers=variant.registers,
            spill_bytes=variant.spill_store_bytes + variant.spill_load_bytes,
            stack_bytes=variant.stack_bytes,
            static_shared_bytes=variant.static_shared_bytes,
            dynamic_shared_bytes=variant.dynamic_shared_bytes,
            instructions=variant.sass.instructions,
            ctas_per_sm=variant.occupancy.ctas_per_sm,
            warps_per_sm=variant.occupancy.warps_per_sm,
            occupancy_limit=variant.occupancy.limit,
            bytes=variant.bytes,
            compile_seconds=variant.compile_seconds,
            advisories=variant.advisories,
        )


@dataclass(frozen=True)
class VariantComparison:
    """One variant in both builds; ``opcodes``: counts of b minus a where they differ, largest change first."""

    name: str
    same_sass: bool
    a: Side
    b: Side
    opcodes: dict[str, int]


@dataclass(frozen=True)
class Comparison:
    """Builds ``a`` and ``b`` (cell names) of one arch; variants that only one of them has are named apart."""

    arch: str
    a: str
    b: str
    variants: list[VariantComparison]
    only_a: list[str]
    only_b: list[str]

    def write(self, path: Path) -> Path:
        """Write the comparison as JSON, ``build/compare/<arch>.json`` by convention, and return the path."""
        _json.write_atomic(path, asdict(self))
        return path


def compare(a: Build, b: Build) -> Comparison:
    """Compare two builds of one arch.

    Raises:
        ValueError: the builds are of different archs, so that they share no variant.
    """
    if a.manifest.arch != b.manifest.arch:
        raise ValueError(
            f"{a.manifest.cell} is of arch {a.manifest.arch} and {b.manifest.cell} of "
            f"{b.manifest.arch}: compare builds of one arch"
        )
    left = {variant.name: variant for variant in a.manifest.variants}
    right = {variant.name: variant for variant in b.manifest.variants}
    return Comparison(
        arch=a.manifest.arch,
        a=a.manifest.cell,
        b=b.manifest.cell,
        variants=[_variant(left[name], right[name]) for name in left if name in right],
        only_a=[name for name in left if name not in right],
        only_b=[name for name in right if name not in left],
    )


def _variant(a: VariantRecord, b: VariantRecord) -> VariantComparison:
    names = a.sass.opcodes.keys() | b.sass.opcodes.keys()
    delta = {name: b.sass.opcodes.get(name, 0) - a.sass.opcodes.get(name, 0) for name in names}
    changed = sorted(
        (item for item in delta.items() if item[1]), key=lambda item: (-abs(item[1]), item[0])
    )
    return VariantComparison(
        name=a.name,
        same_sass=a.sass.sha256 == b.sass.sha256,
        a=Side.of(a),
        b=Side.of(b),
        opcodes=dict(changed),
    )
