"""``manifest.json``: what a build holds, written by the audit and read by everything after it."""

from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from types import GenericAlias
from typing import Any, Self, get_args, get_origin, get_type_hints

from fa3_matrix import _json
from fa3_matrix.errors import BuildError

FILE_NAME = "manifest.json"


@dataclass(frozen=True)
class ToolkitRecord:
    """The compiler: toolkit version (``12.4``) and nvcc's own release (``12.4.131``)."""

    version: str
    nvcc: str


@dataclass(frozen=True)
class AssemblyRecord:
    """A PTX cell's proof: the target it was assembled for, and by which ptxas (``13.3.73``)."""

    target: str
    ptxas: str


@dataclass(frozen=True)
class OccupancyRecord:
    """Theoretical occupancy on an SM of the capability compiled for, and the resource that limits it."""

    ctas_per_sm: int
    warps_per_sm: int
    limit: str


@dataclass(frozen=True)
class SassRecord:
    """Instruction count (end padding excluded), opcode histogram, and a hash normalised for addresses."""

    instructions: int
    opcodes: dict[str, int]
    sha256: str


@dataclass(frozen=True)
class ServesRecord:
    """A set of problem classes: inclusive ranges of ceil(log2(query rows)) and ceil(log2(seqlen_k)), masks, layouts."""

    log2_seqlen_q: list[int]
    log2_seqlen_k: list[int]
    masks: list[str]
    layouts: list[str]


@dataclass(frozen=True)
class VariantRecord:
    """One variant: file, shape, and what the compiler made of it. Sizes in bytes, spills in bytes a thread.

    ``kernel``: the folder of ``cpp/`` it comes from. ``tma_columns``: of the boxes that TMA loads, 0 without TMA.
    ``splits_keys``: 1 where CTAs share the keys of a row tile; then the file also holds ``<name>_combine`` and
    ``<name>_append``, and what is said of registers, spills, stack and SASS is said of ``<name>`` alone; else 0.
    ``registers``: of a thread at launch; warpgroups may redistribute them afterwards. ``serves``: disjoint sets, whose
    union the variant serves. ``candidate``: empty, or why no problem is given to the variant yet.
    """

    name: str
    file: str
    sha256: str
    bytes: int
    images: list[str]
    op: str
    kernel: str
    dtype: str
    head_dim: int
    block_m: int
    block_n: int
    stages: int
    threads: int
    tma_columns: int
    splits_keys: int
    dynamic_shared_bytes: int
    static_shared_bytes: int
    registers: int
    barriers: int
    spill_store_bytes: int
    spill_load_bytes: int
    spill_waiver: str
    stack_bytes: int
    occupancy: OccupancyRecord
    sass: SassRecord
    compile_seconds: float
    peak_compiler_bytes: int
    advisories: list[str]
    serves: list[ServesRecord]
    candidate: str


@dataclass(frozen=True)
class Manifest:
    """A build.

    ``build_seconds`` is the wall time during which at least one compiler of this build ran, the last compile of each
    variant; ``peak_compiler_bytes`` the largest resident size of one compiler process. ``git_revision`` is None outside
    a git checkout; it and ``git_dirty`` are of the moment of the last audit. ``package_version``: None outside a wheel.
    ``forward_abi``: version of the parameters that its kernels take.
    """

    cell: str
    arch: str
    twin_of: str | None
    target: str
    form: str
    forward_abi: int
    capability_range: list[list[int]]
    toolkit: ToolkitRecord
    assembled: AssemblyRecord | None
    git_revision: str | None
    git_dirty: bool
    package_version: str | None
    flags: list[str]
    build_seconds: float
    peak_compiler_bytes: int
    variants: list[VariantRecord]

    def variant(self, name: str) -> VariantRecord:
        """The variant of that name.

        Raises:
            BuildError: the build has no such variant.
        """
        for variant in self.variants:
            if variant.name == name:
                return variant
        raise BuildError(f"build {self.cell} has no variant {name!r}")

    def write(self, folder: Path) -> Path:
        """Write ``manifest.json`` into a build folder and return its path."""
        path = folder / FILE_NAME
        _json.write_atomic(path, asdict(self))
        return path

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the ``manifest.json`` of a build folder.

        Raises:
            Fa3Error: the file is missing, not JSON, or has another schema version.
            BuildError: a key is missing or has another type.
        """
        path = folder / FILE_NAME
        try:
            decoded: Self = _decode(cls, _json.read(path))
        except (KeyError, TypeError) as error:
            raise BuildError(
                f"{path}: not a manifest of this version ({error}); build the cell again"
            ) from error
        return decoded


def _decode(hint: Any, value: Any) -> Any:
    """Turn parsed JSON into ``hint``: dataclasses, list[...], dict[...], unions with None, and plain values."""
    if is_dataclass(hint) and isinstance(hint, type):
        hints = get_type_hints(hint)
        return hint(
            **{field.name: _decode(hints[field.name], value[field.name]) for field in fields(hint)}
        )
    if isinstance(hint, GenericAlias) and get_origin(hint) is list:
        (item,) = get_args(hint)
        if not isinstance(value, list):
            raise TypeError(f"expected a list, found {value!r}")
        return [_decode(item, entry) for entry in value]
    if isinstance(hint, GenericAlias) and get_origin(hint) is dict:
        _, item = get_args(hint)
        return {key: _decode(item, entry) for key, entry in value.items()}
    choices = get_args(hint)
    if choices:
        if value is None and type(None) in choices:
            return None
        (hint,) = (choice for choice in choices if choice is not type(None))
        return _decode(hint, value)
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:
        raise TypeError(f"expected {hint.__name__}, found {value!r}")
    return value
