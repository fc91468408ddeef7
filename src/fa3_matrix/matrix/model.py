"""The matrix as data: each class mirrors a table of ``ci/matrix.toml`` and documents its keys."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from fa3_matrix.errors import MatrixError
from fa3_matrix.matrix.gate import GateLimits, GateWaiver, StaticLimits
from fa3_matrix.matrix.suites import Suite
from fa3_matrix.matrix.target import ComputeCapability, Target

Status = Literal["native", "ptx"]
Dtype = Literal["bf16", "fp16"]
Mask = Literal["full", "causal", "local"]
Layout = Literal["aligned", "unaligned", "paged", "paged_aligned"]
Kernel = Literal["sm80", "sm90", "splitkv"]

DTYPES: tuple[Dtype, ...] = ("bf16", "fp16")
MASKS: tuple[Mask, ...] = ("full", "causal", "local")
LAYOUTS: tuple[Layout, ...] = ("aligned", "unaligned", "paged", "paged_aligned")
KERNELS: tuple[Kernel, ...] = ("sm80", "sm90", "splitkv")
MAX_LOG2_SEQLEN = 16


@dataclass(frozen=True)
class Toolkit:
    """``[toolkits."X.Y"]``: one CUDA toolkit.

    ``targets``: every ``code=`` its nvcc accepts; ``ptx_isa``: the PTX ISA it emits; ``driver``:
    the oldest driver branch that loads its SASS; ``ptx_driver``: the oldest that compiles its PTX,
    ``None`` where no cell ships PTX.
    """

    version: str
    targets: frozenset[str]
    ptx_isa: str
    driver: int
    ptx_driver: int | None

    @property
    def name(self) -> str:
        return self.version

    @property
    def label(self) -> str:
        """The short name in cells and wheels: ``cu124``."""
        return "cu" + self.version.replace(".", "")

    @property
    def env(self) -> str:
        """The environment variable that may name this toolkit's root: ``FA3_CUDA_12_4_ROOT``."""
        return f"FA3_CUDA_{self.version.replace('.', '_')}_ROOT"


@dataclass(frozen=True)
class Gpu:
    """``[gpus.h100]``: a GPU that sessions are named after; ``products`` all serve as one."""

    name: str
    capabilities: tuple[ComputeCapability, ...]
    products: tuple[str, ...]


@dataclass(frozen=True)
class Arch:
    """``[archs.sm90]``: what one kind of GPU gets."""

    name: str
    gpu: Gpu
    description: str


@dataclass(frozen=True)
class Cell:
    """``[cells.sm90-cu133]``: arch x toolkit.

    ``status``: ``native`` (SASS for the arch's own GPU) or ``ptx``; ``reason``: why it is not
    native, else empty; ``assemble``: what the audit assembles a PTX cell for, else ``None``.
    """

    name: str
    arch: Arch
    toolkit: Toolkit
    target: Target
    status: Status
    reason: str
    assemble: Target | None

    @property
    def gencode(self) -> str:
        """The one ``-gencode`` of this cell: ``arch=compute_90a,code=sm_90a``."""
        return f"arch={self.target.virtual},code={self.target}"

    @property
    def twin_of(self) -> None:
        """A cell is nobody's twin; a :class:`Twin` names its cell here."""
        return None


@dataclass(frozen=True)
class Twin:
    """``[twins.sm80-cu124-on-sm90]``: the cell ``of``, compiled to SASS for another GPU."""

    name: str
    of: Cell
    target: Target

    @property
    def arch(self) -> Arch:
        return self.of.arch

    @property
    def toolkit(self) -> Toolkit:
        return self.of.toolkit

    @property
    def status(self) -> Literal["twin"]:
        return "twin"

    @property
    def reason(self) -> str:
        return f"{self.of.name}'s code path, testable on {self.target}; never shipped"

    @property
    def assemble(self) -> None:
        return None

    @property
    def gencode(self) -> str:
        """The cell's code path made for the twin's GPU: ``arch=compute_80,code=sm_90``."""
        return f"arch={self.of.target.virtual},code={self.target}"

    @property
    def twin_of(self) -> str:
        return self.of.name


@dataclass(frozen=True)
class Serves:
    """A set of problem classes: inclusive ranges of ceil(log2(length)), masks, and layouts.

    ``log2_seqlen_q`` is of query rows, see :func:`fa3_matrix.matrix.selection.query_rows`.

    A row's ``serves`` holds one or more, as inline tables of these keys. A key left out serves all.

    ``aligned``: TMA can describe q, k and v. Their base pointers are multiples of 16 bytes, and every
    stride of a dimension longer than 1 is a positive multiple of 16 bytes below 2^40, that of rows at
    least a row. ``paged``: k and v are pages of a cache, found through a page table. ``paged_aligned``:
    likewise, and TMA can load the pages: the tensors are aligned, and page_size is 8, 16, 32, 64 or a
    multiple of 128, so that pages make up blocks of 64 or 128 keys, or the other way round.
    """

    log2_seqlen_q: tuple[int, int] = (0, MAX_LOG2_SEQLEN)
    log2_seqlen_k: tuple[int, int] = (0, MAX_LOG2_SEQLEN)
    masks: tuple[Mask, ...] = MASKS
    layouts: tuple[Layout, ...] = LAYOUTS

    def as_json(self) -> dict[str, Any]:
        """The form that a build's manifest carries."""
        return {
            "log2_seqlen_q": list(self.log2_seqlen_q),
            "log2_seqlen_k": list(self.log2_seqlen_k),
            "masks": list(self.masks),
            "layouts": list(self.layouts),
        }


@dataclass(frozen=True)
class Sm80Options:
    """What a row of ``kernel = "sm80"`` states besides: the portable kernel.

    ``warps``: of a CTA; ``min_blocks``: CTAs per SM that the compiler leaves registers for.
    """

    kernel: ClassVar[Kernel] = "sm80"

    warps: int
    q_in_registers: bool
    min_blocks: int


@dataclass(frozen=True)
class Sm90Options:
    """What a row of ``kernel = "sm90"`` states besides: Hopper's kernel, for ``sm_90a`` alone.

    ``stages_v`` and ``stages_q``: V and Q tiles in flight (``stages`` is of K); ``ping_pong``: whether the
    consumer warpgroups, one for each 64 rows of ``block_m``, take turns at the tensor cores.
    """

    kernel: ClassVar[Kernel] = "sm90"

    stages_v: int
    stages_q: int
    ping_pong: bool


@dataclass(frozen=True)
class SplitKvOptions:
    """What a row of ``kernel = "splitkv"`` states besides: few query rows, and pages that no other kernel reads.

    ``row_warps``: warps of 16 rows each that make up ``block_m``, whose rows are (query, head of the
    group) pairs; ``key_groups``: groups of such warps, which take turns at the steps of keys;
    ``min_blocks``: CTAs per SM that the compiler leaves registers for.
    """

    kernel: ClassVar[Kernel] = "splitkv"

    row_warps: int
    key_groups: int
    min_blocks: int


KernelOptions = Sm80Options | Sm90Options | SplitKvOptions


@dataclass(frozen=True)
class Variant:
    """One kernel to compile, of a ``[[variants]]`` row.

    ``kernel``: the folder of ``cpp/`` that holds its source; ``block_m`` x ``block_n``: rows of Q and
    of K/V in a tile; ``stages``: K/V tiles in flight, of K alone where ``options`` states ``stages_v``;
    ``options``: what only this kernel has; ``serves``: disjoint sets, whose union it serves;
    ``reason``: why the row exists. ``candidate``: empty, or why the variant is built and audited but
    serves nothing yet; ``serves`` is then what it is meant for.
    """

    arch: str
    dtype: Dtype
    head_dim: int
    block_m: int
    block_n: int
    stages: int
    options: KernelOptions
    serves: tuple[Serves, ...]
    reason: str
    candidate: str = ""

    @property
    def name(self) -> str:
        """The ``extern "C"`` name: ``fa3_fwd_sm90_bf16_d128_m128n128``.

        An arch's variant of a kernel that isn't its own ends with that kernel: ``.._m128n64_sm80``.
        """
        tile = f"m{self.block_m}n{self.block_n}"
        foreign = "" if self.kernel == self.arch else f"_{self.kernel}"
        return f"fa3_fwd_{self.arch}_{self.dtype}_d{self.head_dim}_{tile}{foreign}"

    @property
    def kernel(self) -> Kernel:
        return self.options.kernel

    @property
    def entry_functions(self) -> tuple[str, ...]:
        """The kernels that its fatbin holds: itself first, then those that go with it.

        Split keys are merged by ``.._combine``; ``.._append`` writes new rows into a cache.
        """
        if self.splits_keys:
            return self.name, f"{self.name}_combine", f"{self.name}_append"
        return (self.name,)

    @property
    def threads(self) -> int:
        """Of a CTA; a kernel that loads by TMA has one warpgroup more than its rows need."""
        match self.options:
            case Sm80Options():
                return 32 * self.options.warps
            case Sm90Options():
                return 128 * (self.block_m // 64 + 1)
            case SplitKvOptions():
                return 32 * self.options.row_warps * self.options.key_groups

    @property
    def tma_columns(self) -> int:
        """Columns of the boxes that TMA loads, as wide as the swizzle; 0 for a kernel without TMA."""
        if not isinstance(self.options, Sm90Options):
            return 0
        return 64 if self.head_dim % 64 == 0 else 32

    @property
    def splits_keys(self) -> int:
        """1 for a kernel that several CTAs a row tile may share the keys of; else 0."""
        return int(isinstance(self.options, SplitKvOptions))


@dataclass(frozen=True)
class AuditWaiver:
    """What the audit lets pass in builds that match; ``cells`` and ``variants`` are shell patterns."""

    cells: tuple[str, ...]
    variants: tuple[str, ...]
    reason: str

    def covers(self, cell: str, variant: str) -> bool:
        return any(fnmatchcase(cell, p) for p in self.cells) and any(
            fnmatchcase(variant, p) for p in self.variants
        )


@dataclass(frozen=True)
class SpillWaiver(AuditWaiver):
    """``[[spill_waivers]]``: register spills that the audit lets pass.

    ``max_bytes`` bounds spill stores plus loads, in bytes a thread, of the variant's own kernel: those that go with it
    may not spill.
    """

    max_bytes: int


@dataclass(frozen=True)
class AdvisoryWaiver(AuditWaiver):
    """``[[advisory_waivers]]``: advisories of ptxas, by code (``C7515``), that the audit lets pass."""

    codes: tuple[str, ...]


@dataclass(frozen=True)
class Matrix:
    """The whole of ``ci/matrix.toml``, checked."""

    path: Path
    toolkits: tuple[Toolkit, ...]
    gpus: tuple[Gpu, ...]
    archs: tuple[Arch, ...]
    cells: tuple[Cell, ...]
    twins: tuple[Twin, ...]
    suites: tuple[Suite, ...]
    all_variants: tuple[Variant, ...]
    spill_waivers: tuple[SpillWaiver, ...]
    advisory_waivers: tuple[AdvisoryWaiver, ...]
    gate: GateLimits
    static: StaticLimits
    gate_waivers: tuple[GateWaiver, ...]

    @property
    def root(self) -> Path:
        """The source tree: the folder that holds ``ci/``."""
        return self.path.parent.parent

    @property
    def buildable(self) -> tuple[Cell | Twin, ...]:
        """Whatever has a build: the cells, then the twins."""
        return (*self.cells, *self.twins)

    def cell(self, name: str) -> Cell | Twin:
        """The cell or twin of that name; ``MatrixError`` listing the known ones otherwise."""
        return _find("cell", name, self.buildable)

    def toolkit(self, version: str) -> Toolkit:
        """The toolkit of that version or label (``12.4`` or ``cu124``)."""
        by_label = next((t.version for t in self.toolkits if t.label == version), version)
        return _find("toolkit", by_label, self.toolkits)

    def arch(self, name: str) -> Arch:
        """The arch of that name."""
        return _find("arch", name, self.archs)

    def gpu(self, name: str) -> Gpu:
        """The GPU of that name."""
        return _find("gpu", name, self.gpus)

    def suite(self, name: str) -> Suite:
        """The suite of that name."""
        return _find("suite", name, self.suites)

    def variants(self, arch: str) -> tuple[Variant, ...]:
        """The variants of an arch, in the file's order."""
        name = self.arch(arch).name
        return tuple(v for v in self.all_variants if v.arch == name)

    def waived_spill_bytes(self, cell: str, variant: str) -> int:
        """How many spilled bytes the audit may accept there; 0 without a waiver."""
        return max(
            (w.max_bytes for w in self.spill_waivers if w.covers(cell, variant)),
            default=0,
        )

    def waived_advisories(self, cell: str, variant: str) -> frozenset[str]:
        """Codes of the advisories that the audit may accept there."""
        return frozenset(
            code for w in self.advisory_waivers if w.covers(cell, variant) for code in w.codes
        )


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_T = TypeVar("_T", bound=_Named)  # 3.11 has no def f[T]


def _find(kind: str, name: str, items: Sequence[_T]) -> _T:
    for item in items:
        if item.name == name:
            return item
    raise MatrixError(unknown(kind, name, [item.name for item in items]))


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The sentence for a name that the matrix does not hold."""
    return f"no {kind} is named {name!r}; the matrix has {', '.join(known)}"
