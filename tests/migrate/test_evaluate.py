"""Evaluating the scanner: labels by the real compilers where they are at hand, and the parts that need none."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fa3_matrix import toolkits
from fa3_matrix.errors import Fa3Error, ToolkitError
from fa3_matrix.migrate import evaluate
from fa3_matrix.migrate.evaluate import Compilers, Kept, Label, Quality, Rate, Verdict
from fa3_matrix.migrate.prove import Diagnostic, Unit
from fa3_matrix.migrate.rules import Severity, State
from fa3_matrix.migrate.scan.tree import Tree
from fa3_matrix.toolkits import ToolkitRoot

from .small_difference import finding

TREE = {
    "inc/old.h": "#pragma once\ninline void sync() { cudaThreadSynchronize(); }\n",
    "broken.cu": '#include "old.h"\nvoid f() { sync(); }\nint g(cudaDeviceProp p) { return p.clockRate; }\n',
    "clean.cu": "#ifdef MINE\nvoid f() { cudaThreadExit(); }\n#endif\n",
    "host.cpp": "#include <cuda_runtime.h>\nvoid f() { cudaThreadExit(); }\nvoid g() { cudaThreadExit(); }\n",
    "refused.cu": '#include "elsewhere.h"\n',
    "plain.cpp": "#include <vector>\n",
}


@pytest.fixture(scope="session")
def compilers() -> Compilers:
    try:
        return Compilers(*(toolkits.find(v, provision=False) for v in ("12.4", "13.3")))
    except ToolkitError as error:
        pytest.skip(f"needs both toolkits: {error}")


def _written(root: Path) -> Path:
    for name, text in TREE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.toolkit
def test_a_tree_is_labelled_by_both_compilers_and_compared_with_its_scan(
    tmp_path: Path, compilers: Compilers
) -> None:
    root = _written(tmp_path / "tree")
    labels = tmp_path / "labels"
    quality = evaluate.evaluate("small", root, compilers, labels=labels, jobs=1)
    assert quality.files == len(TREE)
    assert {unit.file: unit.verdict for unit in quality.units} == {
        "broken.cu": Verdict.HIT,
        "clean.cu": Verdict.QUIET,
        "host.cpp": Verdict.HIT,
    }
    assert quality.unlabelled == (("refused.cu", "missing header: elsewhere.h"),)
    assert {(p.file, p.line): p.verdict for p in quality.places} == dict.fromkeys(
        [
            ("broken.cu", 3),
            ("inc/old.h", 2),
            ("host.cpp", 2),
            ("host.cpp", 3),
        ],
        Verdict.HIT,
    )
    before = {path: path.stat().st_mtime_ns for path in labels.iterdir()}
    assert evaluate.evaluate("small", root, compilers, labels=labels, jobs=1) == quality
    assert {path: path.stat().st_mtime_ns for path in labels.iterdir()} == before


def _error(text: str, *places: tuple[str, int]) -> Diagnostic:
    return Diagnostic(True, text, places)


BROKEN = Label(True, "", (_error("a.cu(3): error: x", ("a.cu", 3)),), frozenset({"a.cu", "b.h"}))
CLEAN = Label(False, "", (), frozenset({"c.cu", "b.h"}))


@pytest.mark.parametrize(
    "label, file, verdict",
    [
        (BROKEN, "a.cu", Verdict.HIT),
        (BROKEN, "b.h", Verdict.HIT),
        (BROKEN, "c.cu", Verdict.MISS),
        (CLEAN, "b.h", Verdict.ALARM),
        (CLEAN, "a.cu", Verdict.QUIET),
    ],
)
def test_findings_count_where_the_unit_reads_their_file(
    label: Label, file: str, verdict: Verdict
) -> None:
    assert evaluate.judge("unit", label, [finding(file=file)]).verdict is verdict


def test_places_are_those_of_errors_and_of_findings(tmp_path: Path) -> None:
    inside = _error("cub.h(9): error: no", ("/cuda/cub.h", 9), ("b.h", 7))
    undefined = _error('a.cu(20): error: identifier "cudaThreadExit" is undefined', ("a.cu", 20))
    broken = Label(True, "", (*BROKEN.errors, inside, undefined), BROKEN.reads)
    findings = [
        finding("FN-SIG", file="b.h", line=7, name="cub::Max"),
        finding(file="a.cu", line=20),
        finding(file="a.cu", line=30),  # the compiler names it once
        finding("FN-SIG", file="c.cu", line=1, name="cudaMemAdvise"),
        finding("FN-SIG", file="unread.cu", line=1, name="cudaMemAdvise"),
    ]
    places = list(evaluate.places_of([broken, CLEAN], findings, tmp_path))
    assert [(p.file, p.line, p.verdict) for p in places] == [
        ("b.h", 7, Verdict.HIT),
        ("a.cu", 20, Verdict.HIT),
        ("a.cu", 30, Verdict.HIT),
        ("c.cu", 1, Verdict.ALARM),
        ("a.cu", 3, Verdict.MISS),
    ]
    assert places[-1].says == "a.cu(3): error: x"


def test_what_compiling_cannot_show_is_not_judged() -> None:
    assert evaluate.is_judged(finding())
    assert not evaluate.is_judged(finding("SONAME"))
    assert not evaluate.is_judged(finding(state=State.LATENT))
    assert not evaluate.is_judged(finding("HDR-MOVED", severity=Severity.INFO))


def test_a_rule_for_make_names_the_files_of_the_tree(tmp_path: Path) -> None:
    rule = (
        f"unit.o: {tmp_path}/a.cu \\\n  ./b.h {tmp_path}/x/../c\\ d.h \\\n /usr/include/stdio.h\n"
    )
    assert evaluate.depends_on(rule, tmp_path) == {"a.cu", "b.h", "c d.h"}


@given(st.lists(st.sampled_from(Verdict)))
def test_rates_are_of_what_was_counted(verdicts: list[Verdict]) -> None:
    precision, recall = evaluate.rates(verdicts)
    assert precision.hits == recall.hits == verdicts.count(Verdict.HIT)
    assert precision.of - precision.hits == verdicts.count(Verdict.ALARM)
    assert recall.of - recall.hits == verdicts.count(Verdict.MISS)
    for rate in (precision, recall):
        if rate.of:
            assert rate.interval is not None
            low, high = rate.interval
            assert 0 <= low <= rate.hits / rate.of <= high <= 1


def test_the_interval_is_clopper_and_pearsons() -> None:
    # The ends are quantiles of beta distributions.
    assert Rate(48, 50).interval == pytest.approx(
        (stats.beta.ppf(0.025, 48, 3), stats.beta.ppf(0.975, 49, 2))
    )
    assert Rate(0, 0).interval is None
    assert str(Rate(0, 0)) == "-"


def test_labels_are_kept_until_something_that_they_depend_on_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = _written(tmp_path / "tree")
    compiled: list[str] = []

    def label(unit: Unit, root: Path, compilers: Compilers) -> Label:  # noqa: ARG001
        compiled.append(unit.file)
        return BROKEN

    monkeypatch.setattr(evaluate, "label", label)
    here = ToolkitRoot("12.4", tmp_path, "system")
    unit = Unit("broken.cu", ("-Iinc",), cuda=True)

    def ask() -> Label:
        tree = Tree(root, frozenset(TREE))
        return Kept(tmp_path / "labels", tree, Compilers(here, here)).label(unit)

    assert ask() == ask() == BROKEN
    assert len(compiled) == 1
    (root / "inc/old.h").write_text("// nothing\n")
    assert ask() == BROKEN
    assert len(compiled) == 2


def test_the_report_and_the_table_agree() -> None:
    units = (
        evaluate.judge("a.cu", BROKEN, [finding(file="a.cu")]),
        evaluate.judge("c.cu", CLEAN, []),
    )
    place = evaluate.Place("a.cu", 3, Verdict.MISS, "error")
    quality = Quality("small", 4, units, (("d.cu", "missing header: x.h"),), (place,))
    report = json.loads(json.dumps(evaluate.report([quality], "12.4", "13.3")))
    assert report["totals"]["units"]["precision"]["hits"] == 1
    assert report["totals"]["units"]["precision"]["interval"] == pytest.approx([0.025, 1])
    assert report["totals"]["places"]["recall"] == {"hits": 0, "of": 1, "interval": [0, 0.975]}
    assert report["trees"][0]["unlabelled"] == [["d.cu", "missing header: x.h"]]
    row = "| small | 4 | 3 | 2 | 1 | 1 | 0 | 0 | 1 | 1.000 | 1.000 | 0 | 0 | 1 | - | 0.000 |"
    assert evaluate.table([quality]).splitlines()[2] == row


def test_a_tree_that_is_not_there_is_refused(tmp_path: Path) -> None:
    here = ToolkitRoot("12.4", tmp_path, "system")
    with pytest.raises(Fa3Error, match="no such folder"):
        evaluate.evaluate("x", tmp_path / "x", Compilers(here, here), labels=tmp_path, jobs=1)
