"""The project's matrix reads; each way to break it is an error that names the line."""

import os
from pathlib import Path

import pytest

from fa3_matrix.errors import MatrixError
from fa3_matrix.matrix import Cell, Matrix, Serves, Target, Twin, load, parse, selection

from .limits import LIMITS


def test_the_six_cells_as_they_are(matrix: Matrix) -> None:
    assert {c.name: (str(c.target), c.status) for c in matrix.cells} == {
        "sm80-cu124": ("sm_80", "native"),
        "sm80-cu133": ("sm_80", "native"),
        "sm90-cu124": ("sm_90a", "native"),
        "sm90-cu133": ("sm_90a", "native"),
        "sm100-cu124": ("compute_90", "ptx"),
        "sm100-cu133": ("sm_100f", "native"),
    }


def test_a_ptx_cell_carries_its_reason_and_its_proof(matrix: Matrix) -> None:
    cell = matrix.cell("sm100-cu124")
    assert isinstance(cell, Cell)
    assert "no sm_100" in cell.reason
    assert cell.assemble == Target.parse("sm_100")
    assert cell.gencode == "arch=compute_90,code=compute_90"


def test_a_twin_keeps_its_cells_code_path(matrix: Matrix) -> None:
    twin = matrix.cell("sm80-cu124-on-sm90")
    assert isinstance(twin, Twin)
    assert twin.gencode == "arch=compute_80,code=sm_90"
    assert (twin.twin_of, twin.arch.name, twin.toolkit.version) == ("sm80-cu124", "sm80", "12.4")


def test_a_toolkit_is_found_by_version_and_by_label(matrix: Matrix) -> None:
    toolkit = matrix.toolkit("cu133")
    assert toolkit is matrix.toolkit("13.3")
    assert (toolkit.label, toolkit.env) == ("cu133", "FA3_CUDA_13_3_ROOT")


@pytest.mark.parametrize("kind", ["cell", "toolkit", "arch", "gpu", "suite", "variants"])
def test_an_unknown_name_lists_the_known_ones(matrix: Matrix, kind: str) -> None:
    with pytest.raises(MatrixError, match=r"is named 'sm70'; the matrix has \w+"):
        getattr(matrix, kind)("sm70")


def test_it_is_found_from_below_and_from_anywhere_in_a_source_tree(
    matrix: Matrix, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(matrix.root / "tests" / "matrix")
    assert load().path == matrix.path
    monkeypatch.chdir(tmp_path)
    assert load().cells == matrix.cells  # found above the package's own file


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MatrixError, match=r"nowhere\.toml: cannot be read \(No such file"):
        load(tmp_path / "nowhere.toml")


# What is replaced in the project's own file, what the error says, and the text of the line it names.
BREAKS = {
    "unknown key": (
        ('ptx_isa = "8.4"\n', 'ptx_isa = "8.4"\nspeed = 3\n'),
        "unknown key 'speed'; known here: targets, ptx_isa, driver, ptx_driver",
        "speed = 3",
    ),
    "unknown table": (("[gpus.a100]", "[misc]\n\n[gpus.a100]"), "unknown key 'misc'", "[misc]"),
    "unknown arch": (
        ('arch = "sm90"\ntoolkit = "12.4"', 'arch = "sm91"\ntoolkit = "12.4"'),
        "no arch is named 'sm91'; the matrix has sm80, sm90, sm100",
        'arch = "sm91"',
    ),
    "unknown toolkit": (
        ('arch = "sm90"\ntoolkit = "12.4"', 'arch = "sm90"\ntoolkit = "12.5"'),
        "no toolkit is named '12.5'; the matrix has 12.4, 13.3",
        'toolkit = "12.5"',
    ),
    "unknown gpu": (('gpu = "h100"', 'gpu = "h900"'), "no gpu is named 'h900'", 'gpu = "h900"'),
    "malformed target": (
        ('target = "sm_100f"', 'target = "100f"'),
        "'100f' is not a target; write it like sm_80",
        'target = "100f"',
    ),
    "target unknown to the toolkit": (
        ('toolkit = "12.4"\ntarget = "compute_90"', 'toolkit = "12.4"\ntarget = "sm_100a"'),
        "nvcc 12.4 has no sm_100a; it has sm_50,",
        'target = "sm_100a"',
    ),
    "target of another GPU": (
        ('target = "sm_100f"', 'target = "sm_120f"'),
        "sm_120f does not run on compute capability 10.0, 10.3 of b200",
        'target = "sm_120f"',
    ),
    "target of only some of the GPUs": (
        ('target = "sm_100f"', 'target = "sm_100a"'),
        "sm_100a does not run on compute capability 10.3 of b200",
        'target = "sm_100a"',
    ),
    "status that contradicts the target": (
        ('status = "ptx"', 'status = "native"'),
        "status 'native' does not fit target compute_90",
        'status = "native"  # broken',
    ),
    "unknown status": (
        ('status = "ptx"', 'status = "maybe"'),
        "status = 'maybe': must be one of native, ptx",
        'status = "maybe"',
    ),
    "special cell without a reason": (
        ('reason = "nvcc 12.4', 'because = "nvcc 12.4'),
        "missing key 'reason'",
        "[cells.sm100-cu124]",
    ),
    "cell under a wrong name": (
        ("[cells.sm90-cu133]", "[cells.hopper]"),
        "a cell is named after its arch and toolkit: [cells.sm90-cu133]",
        "[cells.hopper]",
    ),
    "cell left out": (
        (
            '[cells.sm90-cu133]\narch = "sm90"\ntoolkit = "13.3"\ntarget = "sm_90a"\n'
            'status = "native"\n',
            "",
        ),
        "no cell for sm90 x CUDA 13.3; state [cells.sm90-cu133], with status and reason",
        "[cells.sm80-cu124]",
    ),
    "PTX that nothing assembles": (
        ('assemble = "sm_100"', 'assemble = "sm_70a"'),
        "no toolkit here assembles for sm_70a",
        'assemble = "sm_70a"',
    ),
    "PTX without its driver": (
        ("ptx_driver = 550\n", ""),
        "state ptx_driver of toolkit 12.4: this cell ships its PTX",
        "[cells.sm100-cu124]",
    ),
    "twin of nothing": (
        ('of = "sm80-cu124"', 'of = "sm70-cu124"'),
        "no cell is named 'sm70-cu124'",
        'of = "sm70-cu124"',
    ),
    "twin that nvcc cannot make": (
        (
            '[twins.sm80-cu133-on-sm90]\nof = "sm80-cu133"\ntarget = "sm_90"',
            '[twins.sm80-cu133-on-sm75]\nof = "sm80-cu133"\ntarget = "sm_75"',
        ),
        "nvcc cannot make sm_75 of compute_80, which sm80-cu133 compiles",
        'target = "sm_75"',
    ),
    "toolkit version": (
        ('[toolkits."13.3"]', '[toolkits."v13"]'),
        "'v13' is not a toolkit version; write it like '13.3'",
        '[toolkits."v13"]',
    ),
    "capability": (
        ('capabilities = ["9.0"]', 'capabilities = ["sm_90"]'),
        "'sm_90' is not a compute capability; write it like '9.0'",
        'capabilities = ["sm_90"]',
    ),
    "schema of another version": (
        ("schema = 1", "schema = 2"),
        "schema = 2: must be 1",
        "schema = 2",
    ),
}


@pytest.mark.parametrize("case", BREAKS)
def test_a_broken_matrix_names_the_line(matrix_text: str, case: str) -> None:
    (old, new), message, line = BREAKS[case]
    assert matrix_text.count(old) == 1, "the project's matrix has changed; adapt this case"
    assert_fails(
        matrix_text.replace(old, new + ("  # broken" if "# broken" in line else "")), message, line
    )


def assert_fails(text: str, message: str, line: str) -> None:
    """Reading ``text`` fails with ``message``, naming the line that begins with ``line``."""
    with pytest.raises(MatrixError) as caught:
        parse(text, Path("ci/matrix.toml"))
    said = str(caught.value)
    assert message in said
    file, number, _ = said.split(":", 2)
    assert file == os.path.join("ci", "matrix.toml")
    assert text.split("\n")[int(number) - 1].startswith(line)


HEAD = (
    """\
schema = 1
toolkits."13.3" = { targets = ["sm_80"], ptx_isa = "9.3", driver = 580 }
gpus.a100 = { capabilities = ["8.0"], products = ["A100"] }
archs.sm80 = { gpu = "a100", description = "Ampere" }
cells.sm80-cu133 = { arch = "sm80", toolkit = "13.3", target = "sm_80", status = "native" }
suites.s = { description = "x", problems = [{ dtype = "bf16", head_dim = 64, seqlen_q = 1, heads_q = 1 }] }
"""
    + LIMITS
)
ROWS_BEGIN = HEAD.count("\n") + 1


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + "".join(f"  {toml(each)},\n" for each in value) + "]"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def row(**keys: object) -> str:
    return "[[variants]]\n" + "".join(f"{k} = {toml(v)}\n" for k, v in keys.items())


COMMON: dict[str, object] = {
    "archs": ["sm80"],
    "dtypes": ["bf16", "fp16"],
    "head_dim": 64,
    "block_m": 64,
    "block_n": 64,
    "stages": 1,
    "reason": "test",
}
SM80: dict[str, object] = {"kernel": "sm80", "warps": 4, "q_in_registers": False, "min_blocks": 2}
SM90: dict[str, object] = {
    "kernel": "sm90",
    "archs": ["sm90"],
    "stages_v": 2,
    "stages_q": 2,
    "ping_pong": True,
}
SPLITKV: dict[str, object] = {"kernel": "splitkv", "row_warps": 4, "key_groups": 2, "min_blocks": 2}


def variant(**keys: object) -> str:
    return row(**COMMON | SM80 | {"serves": [{"layouts": ["aligned", "unaligned"]}]} | keys)


def splitkv_variant(**keys: object) -> str:
    return row(**COMMON | SPLITKV | keys)


PAGES = ["paged", "paged_aligned"]
PAGED = splitkv_variant(serves=[{"layouts": PAGES}])


def test_the_smallest_matrix_reads() -> None:
    matrix = parse(HEAD + variant() + PAGED)
    assert [v.name for v in matrix.variants("sm80")] == [
        "fa3_fwd_sm80_bf16_d64_m64n64",
        "fa3_fwd_sm80_fp16_d64_m64n64",
        "fa3_fwd_sm80_bf16_d64_m64n64_splitkv",
        "fa3_fwd_sm80_fp16_d64_m64n64_splitkv",
    ]
    assert matrix.twins == ()


def test_a_kernel_that_splits_keys_may_serve_everything() -> None:
    rows = splitkv_variant(block_m=16, block_n=128, row_warps=1, key_groups=8)
    variants = parse(HEAD + rows).variants("sm80")
    assert {(v.kernel, v.threads, v.tma_columns, v.splits_keys) for v in variants} == {
        ("splitkv", 256, 0, 1)
    }
    name = "fa3_fwd_sm80_bf16_d64_m16n128_splitkv"
    assert variants[0].entry_functions == (name, f"{name}_combine", f"{name}_append")


@pytest.mark.parametrize(
    ("keys", "message", "line"),
    [
        ({"head_dim": 72}, "head_dim 72: must be a multiple of 16", "head_dim"),
        ({"row_warps": 2}, "row_warps = 2: block_m = 64 needs 4, one for each 16 rows", "row_"),
        ({"row_warps": 0}, "row_warps = 0: must be 1 to 16", "row_warps"),
        ({"key_groups": 3}, "key_groups = 3: block_n = 64 must be a multiple of 48", "key_groups"),
        (
            {"block_m": 256, "row_warps": 16, "key_groups": 4},
            "16 row_warps x 4 key_groups: a CTA has at most 32 warps",
            "key_groups",
        ),
        ({"min_blocks": 0}, "min_blocks = 0: must be 1 to 32", "min_blocks"),
        ({"warps": 4}, "unknown key 'warps'; known here:", "warps"),
    ],
)
def test_a_wrong_variant_that_splits_keys(keys: dict[str, object], message: str, line: str) -> None:
    assert_fails(HEAD + splitkv_variant(**keys), message, line)


def test_the_portable_kernel_reads_no_pages() -> None:
    advice = "; state layouts in each set of serves, among aligned, unaligned"
    message = f"kernel 'sm80' cannot serve layout paged, paged_aligned{advice}"
    second = {"log2_seqlen_q": [8, 16], "layouts": ["aligned", *PAGES]}
    sets = [{"log2_seqlen_q": [0, 7], "layouts": ["aligned"]}, second]
    assert_fails(HEAD + variant(serves=sets) + PAGED, message, f"  {toml(second)}")
    assert_fails(HEAD + variant(serves=[{"masks": ["full"]}]), message, "  { masks")  # so all
    assert_fails(HEAD + row(**COMMON | SM80), message, "kernel")  # likewise
    assert_fails(HEAD + variant(), "full mask, paged", "[[variants]]")
    pages = variant(serves=[{"layouts": ["paged_aligned"]}])
    assert_fails(HEAD + pages, f"cannot serve layout paged_aligned{advice}", "  { layouts")


HOPPER_HEAD = HEAD.replace("sm80", "sm90").replace("sm_80", "sm_90a").replace("8.0", "9.0")


def hopper_variant(**keys: object) -> str:
    return row(**COMMON | SM90 | {"serves": [{"layouts": ["aligned"]}]} | keys)


PORTABLE = variant(archs=["sm90"], serves=[{"layouts": ["unaligned"]}], block_n=32)
HOPPER_PAGED = splitkv_variant(archs=["sm90"], serves=[{"layouts": PAGES}])


def test_a_kernel_of_hoppers_beside_the_portable_one() -> None:
    others = (PORTABLE + HOPPER_PAGED).replace("head_dim = 64", "head_dim = [64, 96]")
    matrix = parse(HOPPER_HEAD + hopper_variant(block_m=192, head_dim=[64, 96]) + others)
    variants = matrix.variants("sm90")
    native, portable = variants[0], variants[4]
    assert (native.kernel, native.threads, native.tma_columns) == ("sm90", 512, 64)
    assert native.serves == (Serves(layouts=("aligned",)),)
    assert (portable.kernel, portable.threads, portable.tma_columns) == ("sm80", 128, 0)
    assert {v.head_dim: v.tma_columns for v in variants[:4]} == {64: 64, 96: 32}


@pytest.mark.parametrize(
    ("keys", "message", "line"),
    [
        ({"head_dim": 80}, "head_dim 80: must be a multiple of 32, at most 256", "head_dim"),
        ({"block_m": 256}, "block_m = 256: must be 64, 128 or 192, for one to three", "block_m"),
        ({"stages_q": 3}, "stages_q = 3: must be 1 to 2", "stages_q"),
        ({"ping_pong": 1}, "ping_pong = 1: must be true or false", "ping_pong"),
    ],
)
def test_a_wrong_variant_of_hoppers(keys: dict[str, object], message: str, line: str) -> None:
    assert_fails(HOPPER_HEAD + hopper_variant(**keys) + PORTABLE, message, line)


def test_options_are_those_of_the_kernel() -> None:
    assert_fails(
        HOPPER_HEAD + hopper_variant(warps=4), "unknown key 'warps'; known here: archs,", "warps"
    )


def test_a_kernel_of_hoppers_needs_its_target() -> None:
    wrong = hopper_variant(archs=["sm80"])
    message = "kernel 'sm90' compiles for sm_90a only, but sm80-cu133 compiles for sm_80; take sm80"
    assert_fails(HEAD + wrong, message, "kernel")
    text = HOPPER_HEAD.replace("sm_90a", "sm_90")
    assert_fails(text + hopper_variant() + PORTABLE, "sm90-cu133 compiles for sm_90;", "kernel")


def test_a_kernel_of_hoppers_alone_leaves_tensors_unserved() -> None:
    assert_fails(HOPPER_HEAD + hopper_variant(), "full mask, unaligned", "[[variants]]")
    both = hopper_variant(serves=[{"layouts": ["aligned", "unaligned"]}])
    message = "kernel 'sm90' cannot serve layout unaligned; state layouts in each set of serves"
    assert_fails(HOPPER_HEAD + both, message, "  { layouts")
    any_pages = hopper_variant(serves=[{"layouts": ["aligned", *PAGES]}])
    message = (
        "cannot serve layout paged; state layouts in each set of serves, among aligned, paged_"
    )
    assert_fails(HOPPER_HEAD + any_pages, message, "  { layouts")


@pytest.mark.parametrize("block_n", [64, 128])
@pytest.mark.parametrize("block_m", [64, 128])
def test_pages_by_tma(block_m: int, block_n: int) -> None:
    sets = [{"layouts": ["aligned"]}, {"layouts": ["paged_aligned"]}]
    native = hopper_variant(block_m=block_m, block_n=block_n, serves=sets)
    others = PORTABLE + splitkv_variant(archs=["sm90"], serves=[{"layouts": ["paged"]}])
    table = selection.table(parse(HOPPER_HEAD + native + others), "sm90")
    assert {index.layout: v.kernel for index, v in table.items()} == {
        "aligned": "sm90",
        "unaligned": "sm80",
        "paged": "splitkv",
        "paged_aligned": "sm90",
    }


@pytest.mark.parametrize(("block_m", "block_n"), [(192, 128), (128, 80), (128, 96), (64, 256)])
def test_tiles_that_no_pages_make_up(block_m: int, block_n: int) -> None:
    sets = [{"layouts": ["aligned"]}, {"layouts": ["paged_aligned"]}]
    message = (
        "kernel 'sm90' reads pages in tiles of at most 128 rows and of 64 or 128 keys, "
        f"not of {block_m} x {block_n}; take paged_aligned out of layouts"
    )
    text = HOPPER_HEAD + hopper_variant(block_m=block_m, block_n=block_n, serves=sets)
    assert_fails(text, message, "serves")


def test_two_variants_for_one_class() -> None:
    layouts = ["aligned", "unaligned"]
    short = variant(serves=[{"log2_seqlen_q": [0, 7], "layouts": layouts}])
    long = variant(block_m=128, serves=[{"log2_seqlen_q": [7, 16], "layouts": layouts}])
    rows = short + "\n" + long
    assert_fails(
        HEAD + rows,
        "fa3_fwd_sm80_bf16_d64_m128n64 serves (head_dim 64, bf16, full mask, aligned, log2 seqlen_q 7, "
        f"log2 seqlen_k 0), which fa3_fwd_sm80_bf16_d64_m64n64 of line {ROWS_BEGIN} serves already",
        "[[variants]]",
    )


READABLE: dict[str, object] = {"layouts": ["aligned", "unaligned"]}


def test_a_row_serves_the_union_of_its_sets() -> None:
    masked = {"log2_seqlen_q": [0, 9], "masks": ["causal", "local"]} | READABLE
    unmasked = {"log2_seqlen_q": [0, 7], "masks": ["full"]} | READABLE
    rest = [
        {"log2_seqlen_q": [8, 16], "masks": ["full"]} | READABLE,
        {"log2_seqlen_q": [10, 16], "masks": ["causal", "local"]} | READABLE,
    ]
    rows = variant(serves=[masked, unmasked]) + variant(block_m=128, serves=rest)
    matrix = parse(HEAD + rows + PAGED)
    layouts = ("aligned", "unaligned")
    assert matrix.variants("sm80")[0].serves == (
        Serves(log2_seqlen_q=(0, 9), masks=("causal", "local"), layouts=layouts),
        Serves(log2_seqlen_q=(0, 7), masks=("full",), layouts=layouts),
    )
    table = selection.table(matrix, "sm80")
    rows_of = {
        (index.mask, index.log2_seqlen_q): v.block_m
        for index, v in table.items()
        if index.layout in layouts
    }
    assert rows_of == {
        (mask, log2): 64 if log2 <= (7 if mask == "full" else 9) else 128
        for mask in ("full", "causal", "local")
        for log2 in range(17)
    }


def test_two_sets_of_one_row_for_one_class() -> None:
    sets = [{"log2_seqlen_q": [0, 7]} | READABLE, {"masks": ["causal"]} | READABLE]
    assert_fails(
        HEAD + variant(serves=sets) + PAGED,
        "two sets of fa3_fwd_sm80_bf16_d64_m64n64 serve (head_dim 64, bf16, causal mask, aligned, "
        "log2 seqlen_q 0, log2 seqlen_k 0); take it out of one",
        "serves",
    )


@pytest.mark.parametrize(
    ("keys", "missing"),
    [
        # 2 dtypes x 3 masks x 2 layouts (the row's) x 17
        ({"serves": [{"log2_seqlen_q": [1, 16]} | READABLE]}, "204 problem classes of sm80"),
        (
            {"serves": [{"masks": ["full", "causal"]} | READABLE]},
            "such as (head_dim 64, bf16, local mask",
        ),
        ({"dtypes": ["bf16"]}, "such as (head_dim 64, fp16, full mask"),
        (
            {"serves": [{"layouts": ["aligned"]}]},
            "such as (head_dim 64, bf16, full mask, unaligned",
        ),
    ],
)
def test_a_class_that_no_variant_serves(keys: dict[str, object], missing: str) -> None:
    assert_fails(HEAD + variant(**keys) + PAGED, missing, "[[variants]]")


def test_a_candidate_serves_nothing_yet() -> None:
    candidate = variant(block_m=128, candidate="not yet proven")
    read = parse(HEAD + variant() + "\n" + candidate + PAGED)
    serving = set(selection.table(read, "sm80").values())
    assert {v.block_m for v in serving} == {64}
    assert {v.candidate for v in read.variants("sm80")} == {"", "not yet proven"}
    assert_fails(HEAD + candidate + PAGED, "problem classes of sm80", "[[variants]]")


def test_an_arch_without_variants() -> None:
    arch = HEAD.split("\n")[3]
    text = HEAD.replace(arch, f"{arch}\n{arch.replace('sm80 =', 'sm81 =')}")
    assert_fails(text + variant() + PAGED, "no variant is stated for arch sm81", "[[variants]]")


def test_a_kernel_made_twice() -> None:
    sets = ({"log2_seqlen_q": lengths} | READABLE for lengths in ([0, 7], [8, 16]))
    rows = "".join(variant(serves=[each]) for each in sets)
    assert_fails(
        HEAD + rows,
        f"makes fa3_fwd_sm80_bf16_d64_m64n64 again; the row at line {ROWS_BEGIN} has it",
        "[[variants]]",
    )


@pytest.mark.parametrize(
    ("keys", "message", "line"),
    [
        ({"head_dim": 72}, "head_dim 72: must be a multiple of 16", "head_dim"),
        (
            {"head_dim": [64, 512]},
            "head_dim 512: must be a multiple of 16, at most 256",
            "head_dim",
        ),
        ({"block_m": 40}, "block_m = 40: must be a multiple of 16", "block_m"),
        ({"warps": 3}, "3 warps cannot share 64 rows", "warps"),
        ({"q_in_registers": 1}, "q_in_registers = 1: must be true or false", "q_in_registers"),
        (
            {"serves": []},
            "serves is empty: state one set of problem classes or more, such as "
            "{ log2_seqlen_q = [7, 16] }, or leave it out to serve everything",
            "serves",
        ),
        ({"serves": READABLE}, "must be an array of tables", "serves"),
        ({"serves": ["full"]}, "serves holds 'full': each must be a table", "serves"),
        (READABLE, "unknown key 'layouts'; known here: archs, dtypes,", "layouts"),
        ({"kernel": "tiny"}, "kernel = 'tiny': must be one of sm80, sm90, splitkv", "kernel"),
        ({"stages_q": 1}, "unknown key 'stages_q'; known here:", "stages_q"),
        ({"archs": ["sm90"]}, "archs holds 'sm90': must be among sm80", "archs"),
        ({"tile": 1}, "unknown key 'tile'; known here: archs, dtypes,", "tile"),
    ],
)
def test_a_wrong_variant(keys: dict[str, object], message: str, line: str) -> None:
    assert_fails(HEAD + variant(**keys), message, line)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"log2_seqlen_q": [5, 4]}, "log2_seqlen_q = [5, 4]: must be [low, high] within 0..16"),
        ({"log2_seqlen_k": [0, 17]}, "log2_seqlen_k = [0, 17]: must be [low, high] within 0..16"),
        ({"masks": ["alibi"]}, "masks holds 'alibi': must be among full, causal, local"),
        (
            {"layouts": ["odd"]},
            "layouts holds 'odd': must be among aligned, unaligned, paged, paged_aligned",
        ),
        (
            {"mask": ["full"]} | READABLE,
            "unknown key 'mask'; known here: log2_seqlen_q, log2_seqlen_k, masks, layouts",
        ),
    ],
)
def test_a_wrong_set(keys: dict[str, object], message: str) -> None:
    first = {"log2_seqlen_q": [0, 3]} | READABLE
    text = HEAD + variant(serves=[first, keys])
    assert_fails(text, f"[variants.0.serves.1]: {message}", f"  {toml(keys)}")


WAIVER = (
    "[[spill_waivers]]\ncells = 'sm80-*'\nvariants = '{}'\nmax_bytes = 8\nreason = 'measured'\n"
)


def test_a_spill_waiver_covers_what_its_patterns_name() -> None:
    matrix = parse(HEAD + variant() + PAGED + WAIVER.format("*_bf16_*"))
    assert matrix.waived_spill_bytes("sm80-cu133", "fa3_fwd_sm80_bf16_d64_m64n64") == 8
    assert matrix.waived_spill_bytes("sm80-cu133", "fa3_fwd_sm80_fp16_d64_m64n64") == 0
    assert matrix.waived_spill_bytes("sm90-cu133", "fa3_fwd_sm80_bf16_d64_m64n64") == 0


def test_an_advisory_waiver_covers_what_its_patterns_name() -> None:
    waiver = WAIVER.replace("spill", "advisory").replace("max_bytes = 8", "codes = ['C7515']")
    matrix = parse(HEAD + variant() + PAGED + waiver.format("*_bf16_*"))
    assert matrix.waived_advisories("sm80-cu133", "fa3_fwd_sm80_bf16_d64_m64n64") == {"C7515"}
    assert matrix.waived_advisories("sm90-cu133", "fa3_fwd_sm80_bf16_d64_m64n64") == set()
    text = HEAD + variant() + PAGED + waiver.replace("C7515", "7515").format("*")
    assert_fails(text, "'7515' is not an advisory's code", "codes")


def test_a_spill_waiver_for_nothing_is_refused() -> None:
    text = HEAD + variant() + PAGED + WAIVER.format("*_fp8_*")
    assert_fails(text, "waives nothing: no cell and variant match", "[[spill_waivers]]")
