"""Migration in the report: a verdict on the first page, and a page with everything, whatever is missing."""

from pathlib import Path

import pytest

from fa3_matrix import _json, report
from fa3_matrix.errors import ToolkitError
from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.formats import json
from fa3_matrix.migrate.result import Result, entries
from fa3_matrix.migrate.store import load_difference
from fa3_matrix.report import inputs, render
from fa3_matrix.report.inputs import Json

from ..migrate.formats.test_html import BEHAVIOUR
from ..migrate.small_difference import finding
from ..page import Page
from .conftest import BuildFolder


def scan(build: BuildFolder, *found: Finding) -> Json:
    """Leaves the result of a scan that found these, as the session `migrate` does."""
    result = Result(load_difference("12.4", "13.3"), ".", entries(found), 1044, 426207)
    _json.write_atomic(build.path / "results" / "migrate.json", json.of_result(result))
    return _json.read(build.path / "results" / "migrate.json")


def pages(build: BuildFolder) -> tuple[Page, Page, str]:
    """The first page, the migration's, and the Markdown."""
    report.write(build.path)
    folder = build.path / "report"
    first, migration = (
        Page((folder / name).read_text(encoding="utf-8"))
        for name in ("index.html", "migration.html")
    )
    return first, migration, (folder / "report.md").read_text(encoding="utf-8")


def test_what_was_not_scanned_is_not_run_and_never_a_pass(build: BuildFolder):
    first, migration, markdown = pages(build)
    assert "Migration of this tree" not in first.text
    assert "nox -s migrate scans this tree" in first.text
    assert "Migration of this tree" not in markdown
    assert "- migration scan: `nox -s migrate` scans this tree" in markdown
    assert "Not run: nox -s migrate scans this tree" in migration.text
    assert "Not run: nox -s migrate-probes" in migration.text
    changes = len(load_difference("12.4", "13.3").changes)
    assert f"{changes:,} changes" in migration.text  # the difference needs no run
    assert build.assembled()["migration"] is None


def test_a_clean_tree_passes_on_the_first_page(build: BuildFolder):
    scan(build, finding("ARCH-DEFAULT", since="13.0"))
    first, migration, markdown = pages(build)
    sentence = "nothing that fails; 1 info (1 active); 1,044 files, 426,207 lines read."
    assert f"pass : {sentence}" in first.text
    assert first.text.index(sentence) < first.text.index("The matrix")
    assert sentence.capitalize() in markdown
    assert first.loads == migration.loads == []
    assert "pass : nothing that fails the run" in migration.text
    assert "migration scan" not in first.text


def test_breaks_fail_on_the_first_page(build: BuildFolder):
    document = scan(build, *(finding(line=line) for line in (1, 2)), finding("DEPRECATED", 3))
    (build.path / "results" / "migrate.json").write_text(
        _json.dumps(document | {"notes": ["a `note` <of> it"]})
    )
    first, migration, markdown = pages(build)
    assert "fail : 2 to be dealt with; 2 break (2 active); 1 deprecated (1 active)" in first.text
    assert "a note <of> it" in first.text
    assert ": fail\n\n2 to be dealt with" in markdown
    assert migration.text.count("It is gone.") == 3
    data = build.assembled()
    assert data["migration"]["state"] == "fail"
    assert "findings" not in data["migration"]  # they are in its own document


def test_probes_are_on_the_migrations_page(build: BuildFolder):
    _json.write_atomic(build.path / "results" / "behaviour.json", BEHAVIOUR)
    first, migration, _ = pages(build)
    assert "Does cudaFree wait? differs" in migration.text
    assert "behaviour probes" not in first.text


def test_the_link_goes_to_the_page_beside_it(build: BuildFolder):
    scan(build)
    page = render.html(build.assembled())
    (name,) = {part.split('"')[0] for part in page.split('<a href="')[1:]}
    report.write(build.path)
    assert (build.path / "report" / name).is_file()


def test_the_page_is_of_the_toolkits_that_were_scanned_for(build: BuildFolder):
    document = scan(build)
    document["old"]["cuda"] = "1.0"
    (build.path / "results" / "migrate.json").write_text(_json.dumps(document))
    with pytest.raises(ToolkitError, match=r"no model of CUDA 1\.0"):
        report.write(build.path)


@pytest.mark.parametrize("name", ["migrate", "behaviour"])
def test_a_document_of_the_migration_is_no_result_of_a_cell(build: BuildFolder, name: str):
    path: Path = build.path / "results" / f"{name}.json"
    _json.write_atomic(path, {"kind": name, "cell": "sm90-cu133"})
    assert inputs.read(build.path).results == {}
