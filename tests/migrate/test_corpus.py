"""The scanner held to what the compilers, or the documentation, say of the corpus."""

import pytest

from fa3_matrix import _json, toolkits
from fa3_matrix.errors import ToolkitError
from fa3_matrix.migrate import rules, suppress
from fa3_matrix.migrate.difference import Difference
from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.rules import Severity
from fa3_matrix.migrate.scan import scan

from ..corpus.inputs import Input, State, read_all
from ..corpus.verdicts import VERDICTS, VERSIONS, judged

CORPUS = read_all()
RECORDED = _json.read(VERDICTS)
OLD, NEW = VERSIONS

# What both toolkits say of the input as it was given last. `SILENT`: of the witness that shows the change.
BROKEN = {State.BREAK, State.LATENT, State.SUPPRESSED, State.SILENT, State.UNSEEN}


def ids(one: Input) -> str:
    return one.name


def lines_of(one: Input) -> set[int]:
    """Where the scanner is to find something."""
    if one.at is not None:
        return {*one.at}
    said = RECORDED["inputs"][one.name]["runs"][-1]["said"]
    if one.state is State.WARN:
        return {*said[NEW]["warnings"]} - {*said[OLD]["warnings"]}
    return {*said[NEW]["errors"]}


def test_each_rule_has_inputs_and_each_input_a_verdict() -> None:
    assert {one.rule for one in CORPUS} == {*rules.RULES}
    assert [one.name for one in CORPUS] == [*RECORDED["inputs"]]
    assert {one.state for one in CORPUS} == {*State}


@pytest.mark.parametrize("one", CORPUS, ids=ids)
def test_the_compilers_bear_out_what_the_input_says_of_itself(one: Input) -> None:
    verdict = RECORDED["inputs"][one.name]
    if one.documented:
        assert verdict == {"documented": one.documented}
        return
    *before, last = verdict["runs"]
    assert all(said["ok"] for run in before for said in run["said"].values())
    assert last["said"][OLD]["ok"]
    assert last["said"][NEW]["ok"] is (one.state not in BROKEN)
    if one.state in BROKEN:
        assert last["said"][NEW]["message"]
        assert lines_of(one) or one.state is State.UNSEEN


def found(one: Input, difference: Difference) -> list[Finding]:
    findings = scan(one.path, difference, processes=1).findings
    return [*suppress.apply(one.path.parent, findings).findings]


def state_of(finding: Finding) -> State:
    if finding.suppressed is not None:
        return State.SUPPRESSED
    if finding.state is rules.State.INACTIVE:
        return State.GUARDED
    if finding.severity is not Severity.BREAK:
        return {
            Severity.DEPRECATED: State.WARN,
            Severity.SILENT: State.SILENT,
            Severity.INFO: State.INFO,
        }[finding.severity]
    return State.LATENT if finding.state is rules.State.LATENT else State.BREAK


@pytest.mark.parametrize("one", CORPUS, ids=ids)
def test_the_scanner_says_so_there_and_nowhere_else(one: Input, difference: Difference) -> None:
    findings = found(one, difference)
    # What is only to know may be said of anything.
    said = {
        (state_of(finding), finding.rule, finding.line)
        for finding in findings
        if state_of(finding) is not State.INFO or one.state is State.INFO
    }
    if one.state in (State.CLEAN, State.UNSEEN):
        assert said == set()
    elif one.state is State.GUARDED:
        assert {(state, rule) for state, rule, _ in said} == {(State.GUARDED, one.rule)}
    else:
        assert said == {(one.state, one.rule, line) for line in lines_of(one)}


# Of each way to ask, and quick.
SAMPLE = (
    *("FN-SIG/prefetch.cu", "FN-REMOVED/behind_an_option.cu", "FIELD-REMOVED/declared.pxd"),
    *("FN-REMAP/uuid.cpp", "ARCH-REMOVED/Makefile", "LINK-STUB/launch.cu", "SONAME/load.py"),
)


@pytest.mark.toolkit
@pytest.mark.parametrize("one", [o for o in CORPUS if o.name in SAMPLE], ids=ids)
def test_the_compilers_still_say_so(one: Input) -> None:
    try:
        roots = [toolkits.find(version, provision=False) for version in VERSIONS]
    except ToolkitError as error:
        pytest.skip(f"needs both toolkits: {error}")
    again, recorded = judged(one, roots), RECORDED["inputs"][one.name]
    # Messages are the host compiler's as well, of which there are several.
    for run in (*again.get("runs", ()), *recorded.get("runs", ())):
        for said in run["said"].values():
            assert (said.pop("message") is None) == said["ok"]
    assert _json.parse(_json.dumps(again), "again") == {"schema": 1, **recorded}
