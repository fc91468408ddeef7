"""The pages: self-contained, escaped, and saying of each cell what the data says."""

import subprocess
import sys
from pathlib import Path

import pytest

from fa3_matrix import report
from fa3_matrix._page import code
from fa3_matrix.report import render

from ..page import Page
from .conftest import BuildFolder, compared


@pytest.fixture
def full(build: BuildFolder) -> BuildFolder:
    for cell in (*build.matrix.cells, *build.matrix.twins):
        build.manifest(cell.name)
        build.result("correctness", cell.name, "not run", reason="no NVIDIA driver")
    for arch in build.matrix.archs:
        a, b = (cell.name for cell in build.matrix.cells if cell.arch == arch)
        build.comparison(arch.name, a, b, compared(f"fa3_fwd_{arch.name}_bf16_d128_m128n64"))
    return build


def _page(build: BuildFolder) -> Page:
    return Page((build.path / "report" / "index.html").read_text(encoding="utf-8"))


def test_page_is_well_formed_and_loads_nothing(full: BuildFolder):
    report.write(full.path)
    assert _page(full).loads == []


def test_page_says_what_was_not_run_and_why(full: BuildFolder):
    report.write(full.path)
    text = _page(full).text
    assert "6 of 6 cells built and audited; none tested on a GPU" in text
    assert text.count("correctness not run: no NVIDIA driver") >= len(full.matrix.cells)
    for cell in (*full.matrix.cells, *full.matrix.twins):
        assert cell.name in text


def test_page_says_where_a_ptx_cells_figures_come_from(full: BuildFolder):
    report.write(full.path)
    assert "sm100-cu124 is PTX: its registers and SASS are of that PTX" in _page(full).text


def test_commands_are_code_and_the_rest_is_escaped():
    assert code("a < b: `nox -s <x>`") == "a &lt; b: <code>nox -s &lt;x&gt;</code>"


def test_a_command_in_the_headline_is_code(build: BuildFolder):
    build.manifest("sm90-cu133")
    page = render.html(build.assembled())
    headline = page.partition('class="headline">')[2].partition("</p>")[0]
    assert "<code>nox -s correctness-h100</code>" in headline


def test_page_of_nothing_built(build: BuildFolder):
    report.write(build.path)
    text = _page(build).text
    assert "Nothing has been built yet" in text
    assert "Nothing to compare" in text
    assert "Advisories Not known: there is no build." in text
    markdown = render.markdown(build.assembled())
    assert "Not known: there is no build.\n" in markdown
    assert "no advisory of the compiler" not in text + markdown


def test_failure_comes_first_and_is_escaped(full: BuildFolder):
    full.result("build", "sm90-cu133", "failed", reason="a <b> & c")
    report.write(full.path)
    page = (full.path / "report" / "index.html").read_text(encoding="utf-8")
    assert "a &lt;b&gt; &amp; c" in page
    assert page.index(">Failed<") < page.index(">The matrix<")


def test_results_of_a_gpu_are_shown(full: BuildFolder):
    full.correctness("sm90-cu133")
    machine = {"gpu": "NVIDIA H200"}
    row = {
        "problem": "p",
        "name": "d128 causal 4096",
        "suite": "headline",
        "variant": "fa3_fwd_sm90_bf16_d128_m128n64",
        "median_us": 812.25,
        "tflops": 338.4,
        "gb_per_s": 120.0,
        "launch_us": 9.5,
        "occupancy": {"theoretical": 0.125, "launch": 0.11, "ctas": 128, "waves": 1.0},
    }
    full.result(
        "performance",
        "sm90-cu133",
        "measured",
        machine=machine,
        suites=["headline"],
        results=[row],
        manifest_sha256=full.manifest_sha256("sm90-cu133"),
    )
    full.peers(
        machine=machine,
        floor=0.95,
        peers=[
            {"name": "fast", "title": "Fast attention", "version": "3.0", "not_run": ""},
            {"name": "gone", "title": "Gone attention", "version": "", "not_run": "not installed"},
        ],
        summary=[
            {
                **{"build": "sm90-cu133", "suite": "grid", "head_dim": None},
                **{"compared": 23, "not_compared": 1, "geomean": 1.14, "below_floor": 2},
                **{"worst": 0.94, "worst_name": "d64 512"},
            }
        ],
        results=[
            {
                **{"suite": "grid", "name": "d64 512", "best_peer": "fast"},
                "arms": {"sm90-cu133": {"median_us": 50.0}, "fast": {"median_us": 47.0}},
                "ratio": {"sm90-cu133": 0.94},
                "not_run": {"gone": "not installed"},
            },
            {
                **{"suite": "grid", "name": "d64 q4", "best_peer": None},
                "arms": {"sm90-cu133": {"median_us": 60.0}},
                "ratio": {},
                "not_run": {"fast": "has no window", "gone": "not installed"},
            },
        ],
    )
    report.write(full.path)
    text = _page(full).text
    for words in ("40 of 40", "812.2 µs", "338.4", "NVIDIA H200"):
        assert words in text
    markdown = (full.path / "report" / "report.md").read_text(encoding="utf-8")
    _columns_agree(markdown)
    for words in (
        *("Fast attention", "3.0", "not run: not installed", "23 of 24", "1.140x", "0.940x"),
        *("50.0 µs (0.940x)", "47.0 µs", "60.0 µs", "none ran", "not run: has no window"),
    ):
        assert words in text
        assert words in markdown


def test_peers_that_were_not_run_are_shown_as_not_run(full: BuildFolder):
    full.peers(state="not run", reason="no peer ran any of the problems", machine={"gpu": "H200"})
    report.write(full.path)
    text = _page(full).text
    assert "Against" not in text
    assert "no peer ran any of the problems" in text


def test_markdown_tables_keep_their_columns(full: BuildFolder):
    report.write(full.path)
    _columns_agree((full.path / "report" / "report.md").read_text(encoding="utf-8"))


def _columns_agree(markdown: str) -> None:
    columns = 0
    for line in markdown.splitlines():
        if line.startswith("|"):
            columns = columns or line.count("|")
            assert line.count("|") == columns, line
        else:
            columns = 0


@pytest.mark.parametrize(
    "value, text",
    [(None, "–"), (0.04, "0.0 s"), (99.94, "99.9 s"), (300, "5 min"), (187.4, "3 min 7 s")],
)
def test_seconds(value: float | None, text: str):
    assert render.seconds(value) == text


@pytest.mark.parametrize(
    "value, text",
    [(None, "–"), (812, "812 B"), (61_440, "61 kB"), (4.2e8, "420.0 MB"), (2e9, "2.00 GB")],
)
def test_size(value: float | None, text: str):
    assert render.size(value) == text


@pytest.mark.parametrize(
    "new, old, text",
    [(4, 4, ""), (103, 100, "+3%"), (88, 100, "-12%"), (1001, 1000, "+0.1%"), (8, 0, "new")],
)
def test_percent(new: float, old: float, text: str):
    assert render.percent(new, old) == text


def test_opcodes_name_the_largest_changes_and_count_the_rest():
    delta = {"MOV": -14, "HMMA": 2, "IMAD": 3, "LDSM": 1, "FADD": 1}
    assert render.opcodes(delta) == "MOV -14, IMAD +3, HMMA +2, FADD +1, 1 more"


def _run(build: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "fa3_matrix.report", "--build", str(build)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_command_prints_a_table_and_the_path(full: BuildFolder):
    done = _run(full.path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[:3] == ["cell", "target", "state"]
    assert lines[-1] == f"report: {full.path / 'report' / 'index.html'}"


def test_command_fails_when_a_stage_failed(full: BuildFolder):
    full.result("build", "sm90-cu133", "failed", reason="ptxas gave up")
    done = _run(full.path)
    assert done.returncode == 1
    assert "ptxas gave up" in done.stdout


def test_command_names_an_unreadable_file(full: BuildFolder):
    (full.path / "compare" / "sm90.json").write_text("{")
    done = _run(full.path)
    assert done.returncode == 1
    assert "sm90.json" in done.stderr
