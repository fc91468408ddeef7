"""docs/support.md, docs/selection.md and the README's support table, from the matrix."""

from collections.abc import Iterable, Sequence

from fa3_matrix.matrix.model import (
    LAYOUTS,
    MASKS,
    MAX_LOG2_SEQLEN,
    Cell,
    Matrix,
    Sm90Options,
    Twin,
    Variant,
)
from fa3_matrix.matrix.target import NEWEST_CAPABILITY, Target

_NOTICE = (
    "<!-- Generated from ci/matrix.toml by `fa3-matrix generate`; edit that file instead. -->\n"
)

_SUPPORT = """\
# What is supported

A *cell* is one arch's kernels compiled by one CUDA toolkit.
"""

_WHERE = "## Where each cell runs\n"

_RULES = """\
SASS runs on the same major compute capability from the minor it was built for; with an `a` suffix
on exactly that one, with an `f` suffix on its family. PTX without a suffix is compiled by the
driver for any newer GPU, and a driver older than the one stated refuses it. A kernel also needs its
shared memory: GPUs that have less of it than the ones named cannot launch the largest tiles.
"""

_TWINS = """\
## Twins

A twin is a cell's code path compiled for another GPU, so that its numbers can be tested there. It
is never shipped, and its time is never called the cell's.
"""

_TOOLKITS = "## Toolkits\n"

_PROBLEMS = "## Problems\n"

_SELECTION = """\
# Which variant serves which problem

A call is reduced to a problem class: the smallest compiled head_dim that holds its own, dtype,
mask, layout, and the lengths in powers of two (a length belongs to the first power that is not below
it). Query rows are the queries where they are more than 64, else queries x query heads that share a K/V head, at most
64: kernels for few queries pack those heads into one tile.
Exactly one variant of an arch serves each class; reading `ci/matrix.toml` fails otherwise. The host
library indexes the same table, filled from the manifest of the build it has loaded, and
`fa3-matrix explain` shows the choice for a problem.

Where a variant serves several sets of classes, its row has a line for each; a column in which they agree has one.

Masks: `full`; `causal`; `local`, a sliding window or any limit besides causal's own.

Layouts: `aligned` where TMA can describe q, k and v: base pointers multiples of 16 bytes, and every
stride of a dimension longer than 1 a positive multiple of 16 bytes (8 elements) below 2^40, of rows at least head_dim;
`unaligned` otherwise, such as for a dimension that is broadcast;
`paged_aligned` where k and v are a cache with a page table and TMA can load the pages: q and both caches are aligned,
and page_size is 8, 16, 32, 64 or a multiple of 128; `paged` for other caches with a page table.

Kernels: `sm80`, the portable one (cp.async, ldmatrix, mma.sync); `sm90`, Hopper's (TMA, wgmma);
`splitkv`, for few query rows, and pages that no other kernel reads (as the portable one; the heads of a group are
rows of one tile, and the keys are split among CTAs).
"""

_SELECTION_COLUMNS = (
    *("head_dim", "dtypes", "query rows", "seqlen_k", "mask", "layout"),
    *("kernel", "tile", "threads", "stages", "why"),
)


def support_table(matrix: Matrix) -> str:
    """The matrix itself: one row an arch, one column a toolkit."""
    rows = [
        [
            f"`{arch.name}`",
            ", ".join(arch.gpu.products),
            *(_short(matrix.cell(f"{arch.name}-{t.label}")) for t in matrix.toolkits),
        ]
        for arch in matrix.archs
    ]
    return _table(["arch", "GPU", *(f"CUDA {t.version}" for t in matrix.toolkits)], rows)


def support(matrix: Matrix) -> str:
    """docs/support.md: what is built, and on which GPU and driver each build runs."""
    where = _table(
        ["cell", "compiled as", "compute capability", "driver", "such as"],
        (_where(c) for c in matrix.cells),
    )
    twins = _table(
        ["twin", "of", "compiled as"],
        ([f"`{t.name}`", f"`{t.of.name}`", f"`{t.gencode}`"] for t in matrix.twins),
    )
    toolkits = _table(
        ["CUDA", "label", "root may be named by", "PTX ISA", "targets"],
        (
            [t.version, f"`{t.label}`", f"`{t.env}`", t.ptx_isa, _numbers(t.targets)]
            for t in matrix.toolkits
        ),
    )
    special = [
        f"`{c.name}` is {c.status.upper()}, not native: {c.reason}.\n"
        for c in matrix.cells
        if c.status != "native"
    ]
    blocks = [
        *(_NOTICE, _SUPPORT, support_table(matrix), *special),
        *(_WHERE, where, _RULES, _TWINS, twins, _TOOLKITS, toolkits, _PROBLEMS, _problems(matrix)),
    ]
    return "\n".join(blocks)


def selection(matrix: Matrix) -> str:
    """docs/selection.md: which variant serves which problem."""
    blocks = [_NOTICE, _SELECTION]
    for arch in matrix.archs:
        rows = _selection_rows(matrix.variants(arch.name))
        blocks += [f"## {arch.name}: {arch.description}\n", _table(_SELECTION_COLUMNS, rows)]
    return "\n".join(blocks)


def _short(cell: Cell | Twin) -> str:
    form = "SASS" if cell.target.form == "sass" else "PTX, compiled by the driver"
    return f"`{cell.target}` {form}"


def _where(cell: Cell) -> list[str]:
    driver = cell.toolkit.driver if cell.status == "native" else cell.toolkit.ptx_driver
    return [
        f"`{cell.name}`",
        f"`{cell.target}`",
        _capabilities(cell.target),
        f"{driver} or newer",
        ", ".join(cell.arch.gpu.products),
    ]


def _capabilities(target: Target) -> str:
    lowest, highest = target.capability_range()
    if highest == NEWEST_CAPABILITY:
        return f"{lowest} and newer"
    return str(lowest) if lowest == highest else f"{lowest} to {highest}"


def _numbers(names: Iterable[str]) -> str:
    targets = sorted((Target.parse(c) for c in names), key=lambda t: (t.major, t.minor, t.suffix))
    return ", ".join(f"`{t.number}`" for t in targets)


def _problems(matrix: Matrix) -> str:
    head_dims = sorted({v.head_dim for v in matrix.all_variants})
    return (
        f"- dtype: {', '.join(sorted({v.dtype for v in matrix.all_variants}))}\n"
        f"- head_dim: any multiple of 8 up to {head_dims[-1]}; compiled for "
        f"{', '.join(map(str, head_dims))}, the others are padded in shared memory\n"
        "- which kernel serves which problem: [selection.md](selection.md)\n"
    )


def _selection_rows(variants: Sequence[Variant]) -> Iterable[list[str]]:
    """One row a kernel shape, with the head_dims and dtypes that share it."""
    dtypes: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    for v in variants:
        dtypes.setdefault((v.head_dim, _shape(v)), []).append(v.dtype)
    head_dims: dict[tuple[str, ...], list[int]] = {}
    for (head_dim, shape), names in dtypes.items():
        head_dims.setdefault((", ".join(names), *shape), []).append(head_dim)
    for cells, dims in sorted(head_dims.items(), key=lambda item: item[1]):
        yield [", ".join(map(str, dims)), *cells]


def _shape(v: Variant) -> tuple[str, ...]:
    return (
        _each(_lengths(s.log2_seqlen_q) for s in v.serves),
        _each(_lengths(s.log2_seqlen_k) for s in v.serves),
        _each(_some(s.masks, MASKS) for s in v.serves),
        _each(_some(s.layouts, LAYOUTS) for s in v.serves),
        f"`{v.kernel}`",
        f"{v.block_m} x {v.block_n}",
        str(v.threads),
        _stages(v),
        f"candidate, serves nothing yet: {v.candidate}; {v.reason}" if v.candidate else v.reason,
    )


def _each(sets: Iterable[str]) -> str:
    """A line for each set, so that a row's cells can be read across; one line where all are alike."""
    lines = list(sets)
    return lines[0] if len(set(lines)) == 1 else "<br>".join(lines)


def _stages(v: Variant) -> str:
    return (
        f"K {v.stages}, V {v.options.stages_v}"
        if isinstance(v.options, Sm90Options)
        else str(v.stages)
    )


def _some(served: Sequence[str], existing: Sequence[str]) -> str:
    return "any" if set(served) == set(existing) else ", ".join(served)


def _lengths(bounds: tuple[int, int]) -> str:
    """The lengths of a range of log2 buckets: bucket 0 is {0, 1}, bucket b is 2^(b-1)+1 .. 2^b."""
    low, high = bounds
    first = 0 if low == 0 else 2 ** (low - 1) + 1
    if high == MAX_LOG2_SEQLEN:
        return "any" if low == 0 else f"{first} and more"
    return f"{first} to {2**high}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
