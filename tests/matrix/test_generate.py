"""The derived files: current in this tree, and accepted by the programs that read them."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from fa3_matrix.errors import MatrixError
from fa3_matrix.matrix import Matrix, Sm90Options, load
from fa3_matrix.matrix.cmake import snippet
from fa3_matrix.matrix.generate import drifted, generate


@pytest.fixture
def tree(matrix: Matrix, tmp_path: Path) -> Matrix:
    """A copy of the matrix and README.md in a tree of its own."""
    for name in ("ci/matrix.toml", "README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(matrix.root / name, tmp_path / name)
    return load(tmp_path / "ci" / "matrix.toml")


def test_this_tree_has_not_drifted(matrix: Matrix) -> None:
    assert drifted(matrix) == [], "run `fa3-matrix generate` and commit the result"


def test_generate_writes_what_has_drifted_and_nothing_else(tree: Matrix) -> None:
    assert {p.as_posix() for p in generate(tree)} == {
        "CMakePresets.json",
        "docs/support.md",
        "docs/selection.md",
    }
    assert generate(tree) == []
    page = tree.root / "docs" / "support.md"
    page.write_text(page.read_text() + "edited by hand\n")
    assert drifted(tree) == [Path("docs/support.md")]
    assert generate(tree) == [Path("docs/support.md")]


def test_a_readme_without_the_marks_is_an_error(tree: Matrix) -> None:
    (tree.root / "README.md").write_text("# fa3-matrix\n")
    with pytest.raises(MatrixError, match="put back the two lines between which the support table"):
        generate(tree)


def cmake() -> str:
    found = shutil.which("cmake", path=f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin")
    if found is None:
        pytest.skip("no cmake on this machine")
    return found


def test_cmake_lists_a_preset_for_each_cell_and_twin(tree: Matrix) -> None:
    generate(tree)
    (tree.root / "CMakeLists.txt").write_text("")
    done = subprocess.run(
        [cmake(), "--list-presets=all"], cwd=tree.root, capture_output=True, text=True, check=False
    )
    if "version too new" in done.stderr:
        pytest.skip("cmake is older than the 4.1 that the presets ask for")
    assert done.returncode == 0, done.stderr
    listed = re.findall(r'^ *"([^"]+)"', done.stdout, re.MULTILINE)
    names = [*(c.name for c in tree.buildable), "host"]
    assert listed == names * 2  # configure presets, then build presets


def test_each_preset_has_a_build_folder_of_its_own(matrix: Matrix) -> None:
    presets = json.loads((matrix.root / "CMakePresets.json").read_text())["configurePresets"]
    by_name = {p["name"]: p for p in presets}
    assert by_name["base"]["hidden"]
    assert by_name["base"]["binaryDir"] == "${sourceDir}/build/cells/${presetName}"
    assert by_name["host"]["binaryDir"] == "${sourceDir}/build/host"


@pytest.mark.parametrize("cell", ["sm90-cu133", "sm100-cu124", "sm80-cu124-on-sm90"])
def test_cmake_reads_the_snippet(matrix: Matrix, tmp_path: Path, cell: str) -> None:
    (tmp_path / "cell.cmake").write_text(snippet(matrix, matrix.cell(cell)))
    (tmp_path / "show.cmake").write_text(
        "include(cell.cmake)\n"
        "foreach(name IN ITEMS CELL TWIN_OF ARCH TOOLKIT TARGET GENCODE FORM ASSEMBLE)\n"
        '  message("${name}=${FA3_${name}}")\n'
        "endforeach()\n"
        "foreach(variant IN LISTS FA3_VARIANTS)\n"
        '  message("${variant}=${${variant}_KERNEL},${${variant}_BLOCK_M},'
        '${${variant}_MIN_BLOCKS}${${variant}_PING_PONG}")\n'
        "endforeach()\n"
    )
    done = subprocess.run(
        [cmake(), "-P", "show.cmake"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    values = dict(line.split("=", 1) for line in done.stderr.splitlines())
    found = matrix.cell(cell)
    assert values["CELL"] == cell
    assert values["TWIN_OF"] == (found.twin_of or "")
    assert values["TARGET"] == found.target.cmake_architecture
    assert values["GENCODE"] == found.gencode
    assert values["ASSEMBLE"] == str(found.assemble or "")
    for variant in matrix.variants(found.arch.name):
        options = variant.options
        own = options.ping_pong if isinstance(options, Sm90Options) else options.min_blocks
        expected = f"{variant.kernel},{variant.block_m},{str(own).lower()}"
        assert values[variant.name] == expected


def test_cmake_passes_every_option_to_the_templates(matrix: Matrix) -> None:
    text = (matrix.root / "cmake" / "fa3_variant_sources.cmake").read_text()
    passed = set(text[text.index("fact\n") : text.index("set(FA3_${fact}")].split())
    stated = {f.name.upper() for v in matrix.all_variants for f in fields(v.options)}
    assert stated <= passed


def test_the_snippet_needs_nothing_but_the_standard_library(matrix: Matrix) -> None:
    # -I -S: neither site-packages nor the environment, as in an isolated build before its requirements.
    code = (
        f"import sys; sys.path.insert(0, {str(matrix.root / 'src')!r})\n"
        "from fa3_matrix.matrix.__main__ import main\n"
        "raise SystemExit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-I", "-S", "-c", code, "cmake"]
    run = {"cwd": matrix.root, "capture_output": True, "text": True, "check": False}
    done = subprocess.run([*command, "sm90-cu133"], **run)
    assert done.returncode == 0, done.stderr
    assert done.stdout == snippet(matrix, matrix.cell("sm90-cu133"))
    done = subprocess.run([*command, "sm90-cu999"], **run)
    assert done.returncode == 1
    assert "error: no cell is named 'sm90-cu999'; the matrix has sm80-cu124" in done.stderr
