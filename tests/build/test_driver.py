"""Builds through CMake: what is compiled again, what is installed, and two builds compared."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from fa3_matrix import matrix
from fa3_matrix.build import Build, build_cell, compare
from fa3_matrix.build.driver import _tool
from fa3_matrix.errors import BuildError, Fa3Error, MatrixError

pytestmark = pytest.mark.toolkit


def _compiled(build: Build) -> dict[Path, int]:
    binary = build.folder.parent
    return {
        path: path.stat().st_mtime_ns for path in binary.glob("CMakeFiles/fa3_cell.dir/**/*.fatbin")
    }


def test_builds_again_only_what_changed(tree):
    first = build_cell("sm90-cu133", root=tree.root)
    assert first.timing is not None
    assert first.timing.cold_seconds > first.manifest.build_seconds > 0
    objects = _compiled(first)
    assert len(objects) == 4
    written = (first.folder / "manifest.json").stat().st_mtime_ns
    build_cell("sm90-cu133", root=tree.root)
    assert _compiled(first) == objects
    assert (first.folder / "manifest.json").stat().st_mtime_ns == written
    # The body is a header of the generated source: the compiler's own dependency file has to name it.
    body = tree.root / "cpp/sm80/body.cuh"
    body.write_text(body.read_text().replace("SCALE", "3.0f"))
    second = build_cell("sm90-cu133", root=tree.root)
    for path, after in _compiled(first).items():
        assert (after > objects[path]) == ("splitkv" not in path.name)
    assert second.timing == first.timing
    one, other = first.manifest.variants[0], second.manifest.variants[0]
    assert one.sass.sha256 != other.sass.sha256
    # A build that fails its audit is no build.
    tree.use("touched_accumulators")
    with pytest.raises(
        BuildError, match=r"2 of 4 variants failed the audit\n.*ptxas advisory: C75"
    ):
        build_cell("sm90-cu133", root=tree.root)
    with pytest.raises(Fa3Error, match="manifest"):
        Build.load(first.folder)


@pytest.mark.parametrize("cell", ["sm90-cu124", "sm90-cu133"])
def test_each_variant_has_its_own_kernel(hopper_tree, cell):
    variants = build_cell(cell, root=hopper_tree.root).manifest.variants
    assert [
        (v.kernel, v.tma_columns, v.splits_keys, v.threads, v.serves[0].layouts) for v in variants
    ] == [
        *[("sm80", 0, 0, 32, ["unaligned"])] * 2,
        *[("splitkv", 0, 1, 64, ["paged", "paged_aligned"])] * 2,
        *[("sm90", 32, 0, 384, ["aligned"])] * 2,
    ]
    # Of a thread at launch: 64 K shared by 384 threads, in steps of 8.
    assert variants[-1].registers == 168
    assert variants[-1].occupancy.ctas_per_sm == 1


def test_two_toolkits_compared(tree):
    builds = [build_cell(name, root=tree.root) for name in ("sm80-cu124", "sm80-cu133")]
    comparison = compare(*builds)
    assert (comparison.arch, comparison.a, comparison.b) == ("sm80", "sm80-cu124", "sm80-cu133")
    assert (comparison.only_a, comparison.only_b) == ([], [])
    row = comparison.variants[0]
    a, b = builds[0].manifest.variant(row.name), builds[1].manifest.variant(row.name)
    assert sum(row.opcodes.values()) == b.sass.instructions - a.sass.instructions
    assert (row.a.registers, row.b.registers) == (a.registers, b.registers)
    assert not row.same_sass or not row.opcodes
    itself = compare(builds[0], builds[0]).variants[0]
    assert itself.same_sass
    assert itself.opcodes == {}
    path = comparison.write(tree.root / "build/compare/sm80.json")
    assert json.loads(path.read_text())["schema"] == 1
    with pytest.raises(ValueError, match="compare builds of one arch"):
        compare(builds[0], build_cell("sm90-cu133", root=tree.root))


def test_a_cell_is_installed_and_a_twin_is_not(tree, tmp_path):
    for name, files in (("sm100-cu124", 5), ("sm80-cu133-on-sm90", 0)):
        build = build_cell(name, root=tree.root)
        prefix = tmp_path / name
        subprocess.run(
            [_tool("cmake"), "--install", build.folder.parent, "--prefix", prefix], check=True
        )
        installed = [path for path in prefix.glob("**/*") if path.is_file()]
        assert len(installed) == files
        if installed:
            folder = prefix / "fa3_matrix" / "cells" / name
            assert Build.load(folder).manifest == build.manifest
            assert Build.load(folder).timing is None


def test_errors_say_what_is_wrong(tree):
    with pytest.raises(MatrixError, match="no cell is named 'sm42'"):
        build_cell("sm42", root=tree.root)
    (tree.root / "cpp/sm80/body.cuh").write_text("#error stop here\n")
    with pytest.raises(BuildError, match="stop here"):
        build_cell("sm80-cu133", root=tree.root)


def _command_line(name: str, root: Path, tmp_path: Path) -> str:
    """The compile command that CMake makes for a cell's first variant, with this machine's folders named."""
    binary = tmp_path / name
    subprocess.run(
        [_tool("cmake"), "--preset", name, "-B", binary, f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}"],
        cwd=root,
        env=os.environ | {"NVCC_APPEND_FLAGS": "-lineinfo", "CUDAFLAGS": "-G", "CPATH": "/nowhere"},
        capture_output=True,
        check=True,
    )
    commands = json.loads((binary / "compile_commands.json").read_text())
    command: str = commands[0]["command"]
    variant = Path(commands[0]["file"]).stem
    compiler = command.split(" ", 1)[0]
    for text, name_of in (
        (str(Path(compiler).parents[1]), "<toolkit>"),
        (str(binary), "<build>"),
        (str(root), "<source>"),
        (variant, "<variant>"),
    ):
        command = command.replace(text, name_of)
    return re.sub(r"-ccbin=\S+", "-ccbin=<host compiler>", command)


def test_command_lines_are_the_golden_ones(repository, tmp_path):
    """One exact compiler command a cell and twin; a wanted change is made in golden/commands.txt too."""
    loaded = matrix.load(repository / "ci/matrix.toml")
    names = [cell.name for cell in (*loaded.cells, *loaded.twins)]
    found = "".join(f"{name}: {_command_line(name, repository, tmp_path)}\n" for name in names)
    golden = (Path(__file__).parent / "golden" / "commands.txt").read_text()
    assert found == golden
