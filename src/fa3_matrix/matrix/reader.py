"""Reads and checks ``ci/matrix.toml``."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from fa3_matrix.errors import MatrixError
from fa3_matrix.matrix import selection
from fa3_matrix.matrix._toml import Document, Table
from fa3_matrix.matrix.gate import read_gate
from fa3_matrix.matrix.model import (
    DTYPES,
    KERNELS,
    LAYOUTS,
    MASKS,
    MAX_LOG2_SEQLEN,
    AdvisoryWaiver,
    Arch,
    AuditWaiver,
    Cell,
    Dtype,
    Gpu,
    Kernel,
    KernelOptions,
    Layout,
    Mask,
    Matrix,
    Serves,
    Sm80Options,
    Sm90Options,
    SpillWaiver,
    SplitKvOptions,
    Status,
    Toolkit,
    Twin,
    Variant,
    unknown,
)
from fa3_matrix.matrix.suites import read_suite
from fa3_matrix.matrix.target import ComputeCapability, Target

_RELATIVE = Path("ci", "matrix.toml")


def load(path: Path | None = None) -> Matrix:
    """Read the matrix.

    Without ``path``, ``ci/matrix.toml`` is looked for in the working folder and those above it,
    then above this file.

    Raises:
        MatrixError: the file is missing, malformed or contradicts itself; names the line.
    """
    path = _find() if path is None else path
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise MatrixError(f"{path}: cannot be read ({error.strerror})") from error
    return parse(text, path)


def _find() -> Path:
    starts = (Path.cwd(), Path(__file__).resolve().parent)
    for folder in (f for start in starts for f in (start, *start.parents)):
        if (folder / _RELATIVE).is_file():
            return folder / _RELATIVE
    raise MatrixError(
        f"no {_RELATIVE.as_posix()} in {starts[0]} or a folder above it; run this in a source tree "
        "of fa3-matrix"
    )


def parse(text: str, path: Path = _RELATIVE) -> Matrix:
    """Read the matrix from ``text``; ``path`` is named in errors."""
    root = Document(text, path).root()
    root.integer("schema", 1, 1)
    toolkits = {name: _toolkit(name, table) for name, table in root.named("toolkits")}
    gpus = {name: _gpu(name, table) for name, table in root.named("gpus")}
    archs = {name: _arch(name, table, gpus) for name, table in root.named("archs")}
    cells = {name: _cell(name, table, archs, toolkits) for name, table in root.named("cells")}
    twin_tables = root.named("twins") if "twins" in root else []
    twins = {name: _twin(name, table, cells) for name, table in twin_tables}
    variants = _variants(root, archs, [*cells.values(), *twins.values()])
    suites = tuple(read_suite(name, table) for name, table in root.named("suites"))
    built = [*cells, *twins]
    spills = tuple(_spill_waiver(t, built, variants) for t in root.tables("spill_waivers"))
    advisories = tuple(
        _advisory_waiver(t, built, variants) for t in root.tables("advisory_waivers")
    )
    limits, static, gate_waivers = read_gate(
        root, built, [v.name for v in variants], [suite.name for suite in suites]
    )
    root.done()
    for arch in archs:
        for toolkit in toolkits.values():
            if f"{arch}-{toolkit.label}" not in cells:
                root.fail(
                    f"no cell for {arch} x CUDA {toolkit.version}; state "
                    f"[cells.{arch}-{toolkit.label}], with status and reason if it is not native",
                    "cells",
                )
    return Matrix(
        path=path,
        toolkits=tuple(toolkits.values()),
        gpus=tuple(gpus.values()),
        archs=tuple(archs.values()),
        cells=tuple(cells.values()),
        twins=tuple(twins.values()),
        suites=suites,
        all_variants=variants,
        spill_waivers=spills,
        advisory_waivers=advisories,
        gate=limits,
        static=static,
        gate_waivers=gate_waivers,
    )


def _toolkit(version: str, table: Table) -> Toolkit:
    if not re.fullmatch(r"\d+\.\d+", version):
        table.fail(f"{version!r} is not a toolkit version; write it like '13.3'")
    targets: list[str] = table.list_of("targets", str, "a string")
    for name in targets:
        if _target(table, "targets", name).form != "sass":
            table.fail(f"targets holds {name!r}: each must be an sm_ name", "targets")
    toolkit = Toolkit(
        version=version,
        targets=frozenset(targets),
        ptx_isa=table.string("ptx_isa"),
        driver=table.integer("driver", 1),
        ptx_driver=table.integer("ptx_driver", 1) if "ptx_driver" in table else None,
    )
    table.done()
    return toolkit


def _gpu(name: str, table: Table) -> Gpu:
    capabilities = []
    for text in table.list_of("capabilities", str, "a string such as '9.0'"):
        try:
            capabilities.append(ComputeCapability.parse(text))
        except ValueError as error:
            table.fail(str(error), "capabilities")
    products: list[str] = table.list_of("products", str, "a string")
    table.done()
    return Gpu(name, tuple(capabilities), tuple(products))


def _arch(name: str, table: Table, gpus: dict[str, Gpu]) -> Arch:
    arch = Arch(
        name=name,
        gpu=_lookup(table, "gpu", gpus),
        description=table.string("description"),
    )
    table.done()
    return arch


def _lookup(table: Table, key: str, known: dict[str, Any], kind: str = "") -> Any:
    name = table.string(key)
    if name not in known:
        table.fail(unknown(kind or key, name, known), key)
    return known[name]


def _target(table: Table, key: str, text: str) -> Target:
    try:
        return Target.parse(text)
    except ValueError as error:
        table.fail(f"{key}: {error}", key)


def _cell(name: str, table: Table, archs: dict[str, Arch], toolkits: dict[str, Toolkit]) -> Cell:
    arch: Arch = _lookup(table, "arch", archs)
    toolkit: Toolkit = _lookup(table, "toolkit", toolkits)
    if name != f"{arch.name}-{toolkit.label}":
        table.fail(
            f"a cell is named after its arch and toolkit: [cells.{arch.name}-{toolkit.label}]"
        )
    target = _target(table, "target", table.string("target"))
    _check_compiles(table, target, toolkit)
    status = cast(Status, table.choice("status", ("native", "ptx")))
    if (status == "ptx") != (target.form == "ptx"):
        table.fail(f"status {status!r} does not fit target {target}", "status")
    idle = [str(c) for c in arch.gpu.capabilities if not target.runs_on(c)]
    if idle:
        table.fail(
            f"{target} does not run on compute capability {', '.join(idle)} of {arch.gpu.name}",
            "target",
        )
    reason = table.string("reason") if status != "native" or "reason" in table else ""
    assemble = None
    if status == "ptx":
        if toolkit.ptx_driver is None:
            table.fail(f"state ptx_driver of toolkit {toolkit.version}: this cell ships its PTX")
        assemble = _target(table, "assemble", table.string("assemble"))
        if assemble.form != "sass" or not any(assemble.needs(t) for t in toolkits.values()):
            table.fail(f"no toolkit here assembles for {assemble}", "assemble")
    table.done()
    return Cell(name, arch, toolkit, target, status, reason, assemble)


def _check_compiles(table: Table, target: Target, toolkit: Toolkit) -> None:
    if target.needs(toolkit):
        return
    table.fail(
        f"nvcc {toolkit.version} has no {target.code}; it has {', '.join(sorted(toolkit.targets))}",
        "target",
    )


def _twin(name: str, table: Table, cells: dict[str, Cell]) -> Twin:
    cell: Cell = _lookup(table, "of", cells, "cell")
    target = _target(table, "target", table.string("target"))
    _check_compiles(table, target, cell.toolkit)
    if target.form != "sass":
        table.fail(f"a twin is SASS for another GPU, not {target}", "target")
    if name != f"{cell.name}-on-{target.code.replace('_', '')}":
        table.fail(f"a twin is named after its cell and target: {cell.name}-on-sm{target.number}")
    source = replace(cell.target, form="ptx")
    # nvcc makes `a` code for its own `a` target only.
    if source.suffix == "a" or not source.runs_on((target.major, target.minor)):
        table.fail(f"nvcc cannot make {target} of {source}, which {cell.name} compiles", "target")
    table.done()
    return Twin(name, cell, target)


def _range(table: Table, key: str) -> tuple[int, int]:
    if key not in table:
        return 0, MAX_LOG2_SEQLEN
    value = table.take(key)
    if (
        not isinstance(value, list)
        or len(value) != 2
        or not all(type(v) is int for v in value)
        or not 0 <= value[0] <= value[1] <= MAX_LOG2_SEQLEN
    ):
        table.fail(f"{key} = {value!r}: must be [low, high] within 0..{MAX_LOG2_SEQLEN}", key)
    return value[0], value[1]


def _row(
    table: Table, archs: dict[str, Arch], buildable: Sequence[Cell | Twin]
) -> Iterator[Variant]:
    names = table.choices("archs", list(archs))
    dtypes = cast(list[Dtype], table.choices("dtypes", DTYPES))
    kernel = cast(Kernel, table.choice("kernel", KERNELS))
    head_dims: list[int] = table.list_of("head_dim", int, "an integer")
    step = 32 if kernel == "sm90" else 16  # of the narrower swizzle; of an mma
    for head_dim in head_dims:
        if not step <= head_dim <= 256 or head_dim % step:
            table.fail(
                f"head_dim {head_dim}: must be a multiple of {step}, at most 256", "head_dim"
            )
    block_m, block_n = table.integer("block_m", 16, 256), table.integer("block_n", 16, 256)
    for key, block in (("block_m", block_m), ("block_n", block_n)):
        if block % 16:
            table.fail(f"{key} = {block}: must be a multiple of 16, the rows of an mma tile", key)
    stages = table.integer("stages", 1, 8)
    if kernel == "sm80":
        options: KernelOptions = _sm80_options(table, block_m)
    elif kernel == "splitkv":
        options = _splitkv_options(table, block_m, block_n)
    else:
        options = _sm90_options(table, block_m)
        _check_hopper(table, [cell for cell in buildable if cell.arch.name in names])
    serves = _serves(table, kernel)
    if kernel == "sm90" and any("paged_aligned" in each.layouts for each in serves):
        _check_pages(table, block_m, block_n)
    reason = table.string("reason")
    candidate = table.string("candidate") if "candidate" in table else ""
    table.done()
    for arch in names:
        for head_dim in head_dims:
            for dtype in dtypes:
                yield Variant(
                    arch=arch,
                    dtype=dtype,
                    head_dim=head_dim,
                    block_m=block_m,
                    block_n=block_n,
                    stages=stages,
                    options=options,
                    serves=serves,
                    reason=reason,
                    candidate=candidate,
                )


def _serves(table: Table, kernel: Kernel) -> tuple[Serves, ...]:
    """The sets of a row; one of everything where it states none."""
    if "serves" not in table:
        _check_layouts(table, "kernel", kernel, LAYOUTS)
        return (Serves(),)
    sets = table.tables("serves")
    if not sets:
        table.fail(
            "serves is empty: state one set of problem classes or more, such as "
            "{ log2_seqlen_q = [7, 16] }, or leave it out to serve everything",
            "serves",
        )
    return tuple(_set(each, kernel) for each in sets)


def _set(table: Table, kernel: Kernel) -> Serves:
    serves = Serves(
        _range(table, "log2_seqlen_q"),
        _range(table, "log2_seqlen_k"),
        tuple(cast(list[Mask], table.choices("masks", MASKS)) if "masks" in table else MASKS),
        tuple(
            cast(list[Layout], table.choices("layouts", LAYOUTS)) if "layouts" in table else LAYOUTS
        ),
    )
    _check_layouts(table, "layouts", kernel, serves.layouts)
    table.done()
    return serves


def _sm80_options(table: Table, block_m: int) -> Sm80Options:
    warps = table.integer("warps", 1, 32)
    if block_m % (16 * warps):
        table.fail(f"{warps} warps cannot share {block_m} rows in mma tiles of 16", "warps")
    return Sm80Options(warps, table.boolean("q_in_registers"), table.integer("min_blocks", 1, 32))


def _sm90_options(table: Table, block_m: int) -> Sm90Options:
    if block_m not in (64, 128, 192):
        table.fail(
            f"block_m = {block_m}: must be 64, 128 or 192, for one to three consumer warpgroups",
            "block_m",
        )
    return Sm90Options(
        table.integer("stages_v", 1, 8), table.integer("stages_q", 1, 2), table.boolean("ping_pong")
    )


def _splitkv_options(table: Table, block_m: int, block_n: int) -> SplitKvOptions:
    row_warps = table.integer("row_warps", 1, 16)
    if block_m != 16 * row_warps:
        table.fail(
            f"row_warps = {row_warps}: block_m = {block_m} needs {block_m // 16}, one for each 16 rows",
            "row_warps",
        )
    key_groups = table.integer("key_groups", 1, 16)
    if block_n % (16 * key_groups):
        table.fail(
            f"key_groups = {key_groups}: block_n = {block_n} must be a multiple of "
            f"{16 * key_groups}, 16 keys for each group",
            "key_groups",
        )
    if row_warps * key_groups > 32:
        table.fail(
            f"{row_warps} row_warps x {key_groups} key_groups: a CTA has at most 32 warps",
            "key_groups",
        )
    return SplitKvOptions(row_warps, key_groups, table.integer("min_blocks", 1, 32))


# Layouts that a kernel can read.
_READABLE: dict[Kernel, tuple[Layout, ...]] = {
    "sm80": ("aligned", "unaligned"),
    "sm90": ("aligned", "paged_aligned"),
    "splitkv": LAYOUTS,
}


def _check_layouts(table: Table, key: str, kernel: Kernel, layouts: Sequence[Layout]) -> None:
    """TMA needs tensors that it can describe; the portable kernel follows no page table."""
    readable = _READABLE[kernel]
    wrong = [layout for layout in layouts if layout not in readable]
    if wrong:
        table.fail(
            f"kernel {kernel!r} cannot serve layout {', '.join(wrong)}; "
            f"state layouts in each set of serves, among {', '.join(readable)}",
            key,
        )


def _check_pages(table: Table, block_m: int, block_n: int) -> None:
    """A block of keys is a whole number of pages, or a part of one, for every ``page_size`` of the class.

    Three consumer warpgroups leave the producer too few registers to look pages up.
    """
    if block_m > 128 or block_n not in (64, 128):
        table.fail(
            f"kernel 'sm90' reads pages in tiles of at most 128 rows and of 64 or 128 keys, not of "
            f"{block_m} x {block_n}; take paged_aligned out of layouts",
            "serves",
        )


def _check_hopper(table: Table, cells: Sequence[Cell | Twin]) -> None:
    """wgmma and setmaxnreg exist in ``sm_90a`` code alone, which nothing else runs."""
    for cell in cells:
        if str(cell.target) != "sm_90a":
            table.fail(
                f"kernel 'sm90' compiles for sm_90a only, but {cell.name} compiles for "
                f"{cell.target}; take {cell.arch.name} out of archs",
                "kernel",
            )


def _variants(
    root: Table, archs: dict[str, Arch], buildable: Sequence[Cell | Twin]
) -> tuple[Variant, ...]:
    """All variants; every problem class of every arch is served by exactly one."""
    rows = [
        (table, variant)
        for table in root.tables("variants")
        for variant in _row(table, archs, buildable)
    ]
    names: dict[str, Table] = {}
    for table, variant in rows:
        if variant.name in names:
            line = names[variant.name].line
            table.fail(f"makes {variant.name} again; the row at line {line} has it")
        names[variant.name] = table
    for arch in archs:
        by_class: dict[selection.ProblemClass, tuple[Table, Variant]] = {}
        for table, variant in rows:
            if variant.arch != arch:
                continue
            for index in selection.served(variant):
                if index in by_class:
                    other, first = by_class[index]
                    if first is variant:
                        table.fail(
                            f"two sets of {variant.name} serve ({index}); take it out of one",
                            "serves",
                        )
                    table.fail(
                        f"{variant.name} serves ({index}), "
                        f"which {first.name} of line {other.line} serves already"
                    )
                by_class[index] = table, variant
        own = [v for _, v in rows if v.arch == arch]
        if not own:
            root.fail(f"no variant is stated for arch {arch}", "variants")
        missing = [index for index in selection.classes(own) if index not in by_class]
        if missing:
            root.fail(
                f"{len(missing)} problem classes of {arch} are served by no variant, "
                f"such as ({missing[0]})",
                "variants",
            )
    return tuple(variant for _, variant in rows)


def _spill_waiver(table: Table, cells: list[str], variants: tuple[Variant, ...]) -> SpillWaiver:
    waiver = SpillWaiver(*_waived(table), max_bytes=table.integer("max_bytes", 1))
    _check_waiver(waiver, table, cells, variants)
    return waiver


def _advisory_waiver(
    table: Table, cells: list[str], variants: tuple[Variant, ...]
) -> AdvisoryWaiver:
    codes = tuple(table.list_of("codes", str, "an advisory's code such as 'C7515'"))
    for code in codes:
        if not re.fullmatch(r"C\d{4}", code):
            table.fail(f"{code!r} is not an advisory's code; write it like 'C7515'", "codes")
    waiver = AdvisoryWaiver(*_waived(table), codes=codes)
    _check_waiver(waiver, table, cells, variants)
    return waiver


def _waived(table: Table) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    return (
        tuple(table.list_of("cells", str, "a cell's name or pattern")),
        tuple(table.list_of("variants", str, "a variant's name or pattern")),
        table.string("reason"),
    )


def _check_waiver(
    waiver: AuditWaiver, table: Table, cells: list[str], variants: tuple[Variant, ...]
) -> None:
    table.done()
    if not any(waiver.covers(cell, v.name) for cell in cells for v in variants):
        table.fail("waives nothing: no cell and variant match its patterns")
