"""What the audit lets pass and what it refuses, each compiled by the real toolkits."""

import pytest

from fa3_matrix.errors import AuditError

pytestmark = pytest.mark.toolkit

CELLS = [
    "sm80-cu124",
    "sm80-cu133",
    "sm90-cu124",
    "sm90-cu133",
    "sm100-cu124",
    "sm100-cu133",
    "sm80-cu124-on-sm90",
    "sm80-cu133-on-sm90",
]


@pytest.mark.parametrize("cell", CELLS)
def test_a_right_build_is_described(tree, cell):
    manifest = tree.audit(cell, tree.compile(cell))
    variant = manifest.variants[0]
    stated = tree.matrix.cell(cell)
    assert (manifest.cell, manifest.target, manifest.twin_of) == (
        cell,
        str(stated.target),
        stated.twin_of,
    )
    assert manifest.capability_range == [list(bound) for bound in stated.target.capability_range()]
    assert variant.images == [str(stated.target)]
    assert (variant.kernel, variant.tma_columns, variant.splits_keys) == ("sm80", 0, 0)
    assert manifest.forward_abi >= 3
    assert (variant.threads, variant.dynamic_shared_bytes, variant.static_shared_bytes) == (
        32,
        4096,
        128,
    )
    assert (variant.barriers, variant.spill_store_bytes, variant.spill_load_bytes) == (1, 0, 0)
    assert 8 <= variant.registers <= 64
    assert sum(variant.sass.opcodes.values()) == variant.sass.instructions > 10
    assert variant.sass.opcodes["STG"] >= 1
    assert variant.occupancy.ctas_per_sm == variant.occupancy.warps_per_sm == 32
    (serves,) = variant.serves
    assert serves.log2_seqlen_q == [0, 16]
    assert serves.layouts == ["aligned", "unaligned"]
    assert manifest.build_seconds > 0
    assert manifest.peak_compiler_bytes > 2**24
    assert "-O3" in manifest.flags
    assert not [flag for flag in manifest.flags if str(tree.root) in flag]
    assembled = manifest.assembled
    assert (assembled.target if assembled else None) == (
        "sm_100" if cell == "sm100-cu124" else None
    )
    audited = tree.root / "audited"
    assert {path.name for path in audited.iterdir()} == {
        "manifest.json",
        *(v.file for v in manifest.variants),
    }
    assert type(manifest).read(audited) == manifest


@pytest.mark.parametrize("cell", ["sm80-cu124", "sm80-cu133", "sm100-cu124"])
def test_what_is_said_of_a_kernel_is_of_itself_and_not_of_those_that_go_with_it(tree, cell):
    """Its combine kernel has another number of registers, barriers and shared bytes, and more code."""
    variant = tree.audit(cell, tree.compile(cell)).variants[2]
    assert (variant.kernel, variant.splits_keys, variant.tma_columns) == ("splitkv", 1, 0)
    assert (variant.threads, variant.dynamic_shared_bytes) == (64, 2048)
    assert (variant.static_shared_bytes, variant.barriers) == (0, 0)
    assert [serves.layouts for serves in variant.serves] == [["paged", "paged_aligned"]]
    assert "BAR" not in variant.sass.opcodes
    assert variant.sass.opcodes["STG"] == 1


def test_each_kernel_of_a_variant_is_audited(make_tree):
    waiver = """
[[spill_waivers]]
cells = ["sm80-cu124"]
variants = ["*"]
max_bytes = 4096
reason = "a test"
"""
    tree = make_tree(waiver)
    with pytest.raises(
        AuditError, match=r"registers of \S+_splitkv_combine spill: [1-9]\d* bytes stored"
    ):
        tree.audit("sm80-cu124", tree.compile("sm80-cu124", "-DSPILLED=64"))
    with pytest.raises(
        AuditError,
        match=r"ptxas compiled .*other.*; expected exactly "
        r"(\S+_splitkv), \1_combine, \1_append",
    ):
        tree.audit("sm80-cu124", tree.compile("sm80-cu124", "-DCOMBINE=other"))


@pytest.mark.parametrize("cell", ["sm80-cu124", "sm90-cu133"])
def test_a_spill_fails(tree, cell):
    tree.use("spilling")
    with pytest.raises(AuditError, match=r"registers of \S+ spill: [1-9]\d* bytes stored"):
        tree.audit(cell, tree.compile(cell))
    assert not (tree.root / "audited" / "manifest.json").exists()


def test_a_spill_within_its_waiver_passes_and_is_named(make_tree):
    waiver = """
[[spill_waivers]]
cells = ["sm80-cu124"]
variants = ["*"]
max_bytes = 4096
reason = "a test"
"""
    tree = make_tree(waiver)
    tree.use("spilling")
    variant = tree.audit("sm80-cu124", tree.compile("sm80-cu124")).variants[0]
    assert variant.spill_waiver == "a test"
    assert 0 < variant.spill_store_bytes + variant.spill_load_bytes <= 4096
    with pytest.raises(AuditError, match=r"registers of \S+ spill"):
        tree.audit("sm80-cu133", tree.compile("sm80-cu133"))


def test_124_serialises_uninitialised_accumulators_and_133_does_not(tree):
    tree.use("uninitialised_accumulators")
    with pytest.raises(
        AuditError, match=r"C7515 .*serialized due to non wgmma instructions defining accumulator"
    ):
        tree.audit("sm90-cu124", tree.compile("sm90-cu124"))
    assert tree.audit("sm90-cu133", tree.compile("sm90-cu133")).variants[0].advisories == []


def test_a_waived_advisory_passes_and_is_recorded(make_tree):
    waiver = """
[[advisory_waivers]]
cells = ["sm90-cu124"]
variants = ["*"]
codes = ["C7515"]
reason = "a test"
"""
    tree = make_tree(waiver)
    tree.use("uninitialised_accumulators")
    advisories = tree.audit("sm90-cu124", tree.compile("sm90-cu124")).variants[0].advisories
    assert [text.partition(" ")[0] for text in advisories] == ["C7515"]


@pytest.mark.parametrize("cell", ["sm90-cu124", "sm90-cu133"])
def test_an_advisory_fails(tree, cell):
    tree.use("touched_accumulators")
    with pytest.raises(AuditError, match=r"ptxas advisory: C75\d\d "):
        tree.audit(cell, tree.compile(cell))


def _without_check_of_flags(monkeypatch):
    """Show that the images themselves are looked at, not only the command line."""
    monkeypatch.setattr("fa3_matrix.build.flags.check", lambda *_: None)


@pytest.mark.parametrize(
    ("cell", "gencode", "message"),
    [
        (
            "sm90-cu133",
            ["arch=compute_90a,code=[compute_90a,sm_90a]"],
            r"holds sm_90a, compute_90a; exactly one image, sm_90a",
        ),
        ("sm80-cu124", ["arch=compute_80,code=[compute_80,sm_80]"], "holds sm_80, compute_80"),
        (
            "sm80-cu133",
            ["arch=compute_80,code=[lto_80,sm_80]"],
            "2 entries .* only 1 are SASS or PTX",
        ),
        ("sm90-cu124", ["arch=compute_90,code=[sm_90]"], "holds sm_90; exactly one image, sm_90a"),
        (
            "sm100-cu133",
            ["arch=compute_100,code=[sm_100]"],
            "ptxas -arch in the cubin is sm_100, expected sm_100f",
        ),
        (
            "sm100-cu133",
            ["arch=compute_100a,code=[sm_100a]"],
            "holds sm_100a; exactly one image, sm_100f",
        ),
        (
            "sm100-cu124",
            ["arch=compute_80,code=[compute_80]"],
            "holds compute_80; exactly one image, compute_90",
        ),
        (
            "sm80-cu124-on-sm90",
            ["arch=compute_90,code=[sm_90]"],
            "virtual architecture in the cubin is 90",
        ),
        (
            "sm80-cu133-on-sm90",
            ["arch=compute_90,code=[sm_90]"],
            "virtual architecture in the cubin is 90",
        ),
    ],
)
def test_wrong_images_fail(tree, monkeypatch, cell, gencode, message):
    objects = tree.compile(cell, gencode=gencode)
    with pytest.raises(AuditError, match="nvcc was asked for"):
        tree.audit(cell, objects)
    _without_check_of_flags(monkeypatch)
    with pytest.raises(AuditError, match=message):
        tree.audit(cell, objects)


def test_another_toolkits_code_fails(tree, monkeypatch):
    objects = tree.compile("sm80-cu133")
    with pytest.raises(AuditError, match=r"toolkit release in the cubin is 13\.3, expected 12\.4"):
        tree.audit("sm80-cu124", objects)
    _without_check_of_flags(monkeypatch)
    # As sm90 calls its variants of the same kernels.
    names = [variant.name for variant in tree.matrix.variants("sm90")]
    renamed = dict(zip(names, objects.values(), strict=True))
    with pytest.raises(AuditError, match=r"holds sm_80; exactly one image, sm_90a"):
        tree.audit("sm90-cu133", renamed)


def test_the_kernel_must_say_what_the_matrix_says(tree):
    template = (tree.root / "cpp/sm80/forward.cu.in").read_text()
    objects = tree.compile(
        "sm80-cu133", template=template.replace("32 * @FA3_WARPS@, DYNAMIC", "64, DYNAMIC")
    )
    with pytest.raises(AuditError, match=r"the kernel says .*threads=64.* say .*threads=32"):
        tree.audit("sm80-cu133", objects)
    objects = tree.compile("sm80-cu133", "-DTMA_COLUMNS=64")
    with pytest.raises(AuditError, match=r"the kernel says .*tma_columns=64.* say .*tma_columns=0"):
        tree.audit("sm80-cu133", objects)
    objects = tree.compile("sm80-cu133", "-DSPLITS_KEYS=1")
    with pytest.raises(AuditError, match=r"the kernel says .*splits_keys=1.* say .*splits_keys=0"):
        tree.audit("sm80-cu133", objects)
    missing = template[: template.index('extern "C" __device__ const')]
    with pytest.raises(AuditError, match="has no fa3_fwd_sm80_bf16_d16_m16n16_info object"):
        tree.audit("sm80-cu133", tree.compile("sm80-cu133", template=missing))
    second = template + '\nextern "C" __global__ void other() {}\n'
    with pytest.raises(AuditError, match="expected exactly fa3_fwd_sm80"):
        tree.audit("sm80-cu133", tree.compile("sm80-cu133", template=second))


def test_a_kernel_that_cannot_be_launched_fails(tree):
    too_much = 164 * 1024
    with pytest.raises(
        AuditError, match=r"cannot be launched on sm_80 \(limit: shared memory\).*at most 166912"
    ):
        tree.audit("sm80-cu133", tree.compile("sm80-cu133", f"-DDYNAMIC_SHARED={too_much}"))


def test_a_missing_log_or_object_says_what_to_do(tree):
    objects = tree.compile("sm80-cu133")
    path = next(iter(objects.values()))
    (path.parent / f"{path.name}.log.json").unlink()
    with pytest.raises(AuditError, match=r"no compile log .* delete .* and build again"):
        tree.audit("sm80-cu133", objects)
    with pytest.raises(AuditError, match="the matrix has"):
        tree.audit("sm80-cu133", {})
