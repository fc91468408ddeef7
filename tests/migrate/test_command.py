"""`fa3-matrix migrate` as its users run it: what it prints and writes, and its exit codes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa3_matrix.migrate import command, store
from fa3_matrix.migrate.baseline import BaselineError
from fa3_matrix.migrate.command import Options
from fa3_matrix.migrate.formats import Format, FormatError
from fa3_matrix.migrate.result import FailOn
from fa3_matrix.migrate.scan.walk import walk

ROOT = Path(__file__).parents[2]
BREAKS = """\
#include <cuda_runtime.h>
void f(void* p, cudaStream_t s) {
  cudaThreadSynchronize();
#ifdef OLD_WAY
  cudaThreadExit();
#endif
#if CUDART_VERSION < 13000
  cudaThreadExit();
#endif
}
"""


@pytest.fixture(autouse=True, scope="module")
def _loaded_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "load_difference", cache(store.load_difference))
        yield


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.cu").write_text(BREAKS)
    (folder / "CMakeLists.txt").write_text("set(CMAKE_CUDA_ARCHITECTURES 70 80)\n")
    (folder / "setup.py").write_text("from cuda import cudart\n")
    (folder / "Dockerfile").write_text("FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\n")
    (folder / "Makefile").write_text("SMS = 60 80\n")
    return folder


def process(*arguments: str | Path, before: str = "") -> subprocess.CompletedProcess[str]:
    code = f"{before}\nfrom fa3_matrix.cli import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", code, "migrate", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_breaks_of_all_kinds_of_files_exit_with_1(tree: Path) -> None:
    done = process(tree)
    assert done.returncode == 1, done.stderr
    places = {
        line.split(": ")[0].rsplit(":", 1)[0]
        for line in done.stdout.split("\n")
        if "break[" in line
    }
    assert places == {
        "src/a.cu:3",
        "src/a.cu:5",
        "CMakeLists.txt:1",
        "setup.py:1",
        "Dockerfile:1",
        "Makefile:1",
    }
    assert "break[FN-REMOVED, latent]" in done.stdout
    assert "scan " in done.stderr
    assert "scan " not in done.stdout


def test_nothing_that_breaks_exits_with_0(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text(
        "#include <cuda_runtime.h>\nvoid f() { cudaDeviceSynchronize(); }\n"
    )
    done = process(tmp_path)
    assert (done.returncode, "no findings" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("no/such/tree",), "no such file or folder"),
        (("--from", "1.0", "."), "1.0"),
        (("--baseline", "none.json", "src/fa3_matrix/gate"), "no such file"),
        (("--output", "x.xml", "."), "the suffix chooses the format"),
        (("--format", "xml", "."), "'xml' is none of text, json, markdown, sarif"),
        (("--fail-on", "all", "."), "is none of break, latent, deprecated"),
        (("diff", "12.4", "13.3", "--rule", "FN-GONE"), "no such rule: FN-GONE"),
        (("diff", "12.4", "13.3", "--format", "sarif"), "take text, json, markdown"),
    ],
)
def test_what_cannot_be_done_exits_with_2(arguments: tuple[str, ...], message: str) -> None:
    done = process(*arguments)
    assert done.returncode == 2, done.stdout
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


def test_a_missing_extra_is_named(tree: Path) -> None:
    done = process(tree, before="import sys; sys.modules['tree_sitter'] = None")
    assert done.returncode == 2
    assert "tree_sitter" in done.stderr
    assert "extra `migrate`" in done.stderr


def test_a_difference_of_some_rules() -> None:
    done = process("diff", "12.4", "13.3", "--rule", "ARCH-REMOVED", "--format", "json")
    assert done.returncode == 0, done.stderr
    names = {row["name"] for row in json.loads(done.stdout)["changes"]}
    assert {"sm_50", "sm_70"} <= names
    assert "sm_75" not in names


def test_a_difference_as_a_page(tmp_path: Path) -> None:
    page = tmp_path / "difference.html"
    done = process("diff", "12.4", "13.3", "--rule", "ARCH-REMOVED", "--output", str(page))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    text = page.read_text("utf-8")
    assert "sm_50" in text
    assert "cuCtxCreate" not in text
    assert process("diff", "12.4", "13.3", "--output", "x.pdf").returncode == 2


def test_help_shows_the_scans_options() -> None:
    done = process("--help")
    assert done.returncode == 0
    for option in ("--baseline", "--fix", "--prove", "--fail-on"):
        assert option in done.stdout


def codes(tree: Path, **options: object) -> int:
    return command.run(tree, Options(**options))  # type: ignore[arg-type]


def test_a_latent_break_fails_only_if_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.cu").write_text(BREAKS.replace("  cudaThreadSynchronize();\n", ""))
    assert codes(tmp_path) == 0
    assert codes(tmp_path, fail_on=FailOn.LATENT) == 1
    capsys.readouterr()


def test_a_baseline_lets_only_new_ones_fail(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "breaks.json"
    assert codes(tree, write_baseline=file) == 0
    assert codes(tree, baseline=file, fail_on=FailOn.DEPRECATED) == 0
    source = tree / "src" / "a.cu"
    source.write_text("\n\n" + BREAKS)
    assert codes(tree, baseline=file) == 0  # lines have shifted
    source.write_text(BREAKS.replace("#endif\n", "#endif\n  cudaThreadSynchronize();\n", 1))
    capsys.readouterr()
    assert codes(tree, baseline=file) == 1
    assert "1 fail the run" in capsys.readouterr().out
    source.unlink()
    assert codes(tree, baseline=file) == 0
    assert "of the baseline are gone" in capsys.readouterr().out


def test_a_baseline_of_other_toolkits_is_refused(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "breaks.json"
    file.write_text(
        '{"schema": 1, "kind": "fa3-matrix migrate baseline", "old": "11.8", "new": "12.4", "findings": {}}'
    )
    with pytest.raises(BaselineError, match=r"11\.8 -> 12\.4"):
        codes(tree, baseline=file)


def test_suppressed_in_the_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.cu").write_text(
        "#include <cuda_runtime.h>\nvoid f() {\n  // fa3-migrate: ignore[FN-REMOVED] built by 12.4 alone\n"
        "  cudaThreadSynchronize();\n}\n"
    )
    assert codes(tmp_path, format=Format.JSON) == 0
    (row,) = json.loads(capsys.readouterr().out)["findings"]
    assert row["suppressed"] == "built by 12.4 alone"


def test_files_are_written_by_their_suffix(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = tuple(
        tmp_path / "out" / f"migrate.{suffix}" for suffix in ("sarif", "md", "json", "txt")
    )
    assert codes(tree, outputs=files) == 1
    capsys.readouterr()
    assert json.loads(files[0].read_text())["version"] == "2.1.0"
    assert files[1].read_text().startswith("# CUDA 12.4 to 13.3")
    assert json.loads(files[2].read_text())["failing"] >= 5
    assert files[3].read_text() == command.FORMATS[Format.TEXT](command.examine(tree, Options()))
    with pytest.raises(FormatError):
        codes(tree, outputs=(tmp_path / "a.xml",))
    (tmp_path / "file").write_text("")
    with pytest.raises(command.MigrateError, match="cannot be written"):
        codes(tree, outputs=(tmp_path / "file" / "a.json",))


def test_the_patch_makes_what_is_mechanical_go_away(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    patch = tmp_path / "out.patch"
    before = command.examine(tree, Options()).failing
    codes(tree, fix=patch)
    assert (tree / "Makefile").read_text() == "SMS = 60 80\n"  # never in place
    subprocess.run(["git", "apply", patch], cwd=tree, check=True)
    assert (tree / "Makefile").read_text() == "SMS = 80\n"
    assert (tree / "setup.py").read_text() == "from cuda.bindings import runtime as cudart\n"
    after = command.examine(tree, Options())
    assert after.failing < before
    assert not any(e.finding.edits and e.fails(FailOn.BREAK) for e in after.entries)
    capsys.readouterr()


def test_a_patch_on_standard_output_is_all_there_is(tree: Path) -> None:
    done = process(tree, "--fix", "-")
    assert done.stdout.startswith("--- a/")
    assert "fail the run" not in done.stdout
    checked = subprocess.run(
        ["git", "apply", "--check", "-"], cwd=tree, input=done.stdout, text=True, check=False
    )
    assert checked.returncode == 0


def test_folders_may_be_left_out(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert codes(tree, exclude=("src", "*.txt", "setup.py", "Docker*", "Makefile")) == 0
    assert codes(tree / "src" / "a.cu", exclude=("*.cu",)) == 0
    capsys.readouterr()


def test_what_is_left_out_is_not_even_opened(tree: Path) -> None:
    inner = tree / "third_party" / "cub" / "deep"
    inner.mkdir(parents=True)
    (inner / "a.cu").write_text(BREAKS)
    (inner / "huge.cu").write_bytes(b"")
    os.truncate(inner / "huge.cu", 10**10)  # of no blocks
    (inner / "gone.cu").symlink_to("nowhere")
    (tree / "src" / "b.cu").write_text('#include "cub/deep/a.cu"\nvoid g() { cudaThreadExit(); }\n')
    tells = """
import sys
def tell(event, arguments):
    if event in ("open", "os.scandir", "os.listdir") and "third_party" in str(arguments[0]):
        print("touched", event, file=sys.stderr)
sys.addaudithook(tell)
"""
    done = process(tree, before=tells)
    assert "touched os.scandir" in done.stderr
    assert "touched open" in done.stderr
    assert "third_party/cub/deep/huge.cu" in done.stdout
    for pattern in ("third_party", "third_party/", "*/cub", "third*"):
        done = process(tree, "--exclude", pattern, before=tells)
        assert "src/b.cu:2" in done.stdout, done.stderr
        assert "third_party/" not in done.stdout
        # One look at its names where a folder inside is meant, none where it is itself.
        assert done.stderr.count("touched") == (1 if pattern == "*/cub" else 0)


_NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map("/".join)
_PATTERNS = st.text("abc/*?", min_size=1, max_size=6)


@given(files=st.lists(_NAMES, max_size=5), patterns=st.lists(_PATTERNS, max_size=3))
def test_a_pattern_means_the_name_or_a_folder_above_it(
    files: list[str], patterns: list[str]
) -> None:
    with TemporaryDirectory() as folder:
        for file in files:
            path = Path(folder, f"{file}.cu")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        everything = {item.file for item in walk(Path(folder))}
        left = {item.file for item in walk(Path(folder), patterns)}
    means = [shape for p in patterns for shape in (p.rstrip("/"), f"{p.rstrip('/')}/*")]
    assert left == {file for file in everything if not any(fnmatchcase(file, m) for m in means)}


def test_one_file_alone(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert codes(tree / "src" / "a.cu") == 1
    assert "a.cu:3:" in capsys.readouterr().out


def test_a_name_that_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        (tmp_path / os.fsdecode(b"a\xff.cu")).write_text(BREAKS)
    except OSError:
        pytest.skip("this file system takes only names that are UTF-8")
    for format in Format:
        codes(tmp_path, format=format, outputs=(tmp_path / "out" / "a.md",))
    capsys.readouterr()
