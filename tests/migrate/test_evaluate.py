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
from fa3_matrix.migrate.evaluate import Quality, Rate, Verdict
from fa3_matrix.migrate.labels import Compilers, Label
from fa3_matrix.migrate.prove import Diagnostic
from fa3_matrix.migrate.rules import Severity, State
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


def test_a_header_that_only_host_compilers_miss_is_no_finding_of_nvccs_units(
    tmp_path: Path,
) -> None:
    moved = finding("HDR-MOVED", file="b.h", line=4, name="thrust/")
    assert evaluate.judge("c.cu", CLEAN, [moved]).verdict is Verdict.QUIET
    assert evaluate.judge("c.cpp", CLEAN, [moved]).verdict is Verdict.ALARM
    assert list(evaluate.places_of([("c.cu", CLEAN)], [moved], tmp_path)) == []
    missing = _error("b.h:4:10: fatal error: thrust/pair.h: No such file", ("b.h", 4))
    broken = Label(True, "", (missing,), frozenset({"a.cpp", "b.h"}))
    places = evaluate.places_of([("c.cu", CLEAN), ("a.cpp", broken)], [moved], tmp_path)
    assert [(p.file, p.line, p.verdict) for p in places] == [("b.h", 4, Verdict.HIT)]


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
    labels = [("a.cu", broken), ("c.cu", CLEAN)]
    places = list(evaluate.places_of(labels, findings, tmp_path))
    assert [(p.file, p.line, p.verdict) for p in places] == [
        ("b.h", 7, Verdict.HIT),
        ("a.cu", 20, Verdict.HIT),
        ("a.cu", 30, Verdict.HIT),
        ("c.cu", 1, Verdict.ALARM),
        ("a.cu", 3, Verdict.MISS),
    ]
    assert places[-1].says == "a.cu(3): error: x"


def test_what_comes_after_a_missing_header_is_not_judged(tmp_path: Path) -> None:
    missing = _error("a.cu:3:10: fatal error: thrust/gone.h: No such file", ("a.cu", 3))
    stopped = Label(True, "", (missing,), frozenset({"a.cu", "b.h"}))
    found = [finding("HDR-REMOVED", file="a.cu", line=3), finding(file="b.h", line=9)]
    places = list(evaluate.places_of([("a.cu", stopped)], found, tmp_path))
    assert [(p.file, p.line, p.verdict) for p in places] == [("a.cu", 3, Verdict.HIT)]
    both = evaluate.places_of([("a.cu", stopped), ("c.cu", CLEAN)], found, tmp_path)
    assert [p.verdict for p in both] == [Verdict.HIT, Verdict.ALARM]


def test_errors_that_follow_from_one_that_is_found_are_none_of_their_own(tmp_path: Path) -> None:
    text = "thrust::tuple<int> a;\nthrust::tuple<int> b;\ncub::Max\n  c(1);\nint d = c(2) + e;\n"
    (tmp_path / "a.cu").write_text(text)
    errors = (
        _error('a.cu(1): error: namespace "thrust" has no member "tuple"', ("a.cu", 1)),
        _error('a.cu(2): error: explicit type is missing ("int" assumed)', ("a.cu", 2)),
        _error('a.cu(3): error: namespace "cub" has no member "Max"', ("a.cu", 3)),
        _error('a.cu(5): error: identifier "c" is undefined', ("a.cu", 5)),
        _error('a.cu(6): error: identifier "e" is undefined', ("a.cu", 6)),
    )
    broken = Label(True, "", errors, frozenset({"a.cu"}))
    found = [
        finding("INCLUDE-TRANSITIVE", line=1, name="thrust::tuple"),
        finding("CCCL-REMOVED", line=3, name="cub::Max"),
    ]
    places = list(evaluate.places_of([("a.cu", broken)], found, tmp_path))
    assert [(p.line, p.verdict) for p in places] == [
        (1, Verdict.HIT),
        (3, Verdict.HIT),
        (6, Verdict.MISS),
    ]


def test_what_compiling_cannot_show_is_not_judged() -> None:
    assert evaluate.is_judged(finding())
    assert not evaluate.is_judged(finding("SONAME"))
    assert not evaluate.is_judged(finding(state=State.LATENT))
    assert not evaluate.is_judged(finding("HDR-MOVED", severity=Severity.INFO))


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
