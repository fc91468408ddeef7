"""Probes: what runs them with programs that do anything at all, and the real ones compiled by both toolkits."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from fa3_matrix import _json, toolkits
from fa3_matrix.errors import Fa3Error, ToolkitError
from fa3_matrix.migrate.probes import Observations, Probed, Run, Status, read, run, write
from fa3_matrix.migrate.probes.__main__ import main
from fa3_matrix.migrate.probes.build import build
from fa3_matrix.migrate.probes.catalogue import MANIFEST, PROBES, PROGRAMS
from fa3_matrix.migrate.probes.markdown import table
from fa3_matrix.migrate.probes.observations import Built

OLD = Built("12.4", "12.4.131", "libcudart.so.12")
NEW = Built("13.3", "13.3.73", "libcudart.so.13")
OBSERVES = """echo '{"observed": {"case": "answer"}, "measured": {"it, ms": 1.5}}'"""


def folder_of(tmp_path: Path, **scripts: str) -> Path:
    """A folder as `build` makes it, of shell scripts: those given, by name, and for the rest one that observes."""
    for built in (OLD, NEW):
        folder = tmp_path / "out" / built.version
        folder.mkdir(parents=True)
        for probe in PROBES:
            program = folder / probe.name
            program.write_text(f"#!/bin/sh\n{scripts.get(probe.name, OBSERVES)}\n")
            program.chmod(0o755)
    manifest = {"toolkits": [dataclasses.asdict(built) for built in (OLD, NEW)]}
    _json.write_atomic(tmp_path / "out" / MANIFEST, manifest)
    return tmp_path / "out"


def runs_of(observations: Observations, name: str) -> tuple[Run, ...]:
    (probed,) = [probed for probed in observations.probes if probed.name == name]
    return probed.runs


def test_each_probe_has_a_source_and_each_source_is_a_probe() -> None:
    assert {probe.source for probe in PROBES} == {*PROGRAMS.glob("*.cpp")}


def test_what_a_probe_does_ends_with_it(tmp_path: Path) -> None:
    out = folder_of(
        tmp_path,
        free_waits='echo \'{"reason": "no device: because"}\'',
        stream_priorities="kill -SEGV $$",
        device_uuid="echo 'cannot open shared object' >&2; exit 127",
        load_runtime="echo nothing of use",
        graph_edges="sleep 30",
    )
    found = run(out, seconds=0.5)
    assert [probed.name for probed in found.probes] == [probe.name for probe in PROBES]
    assert found.toolkits == (OLD, NEW)
    assert runs_of(found, "foreign_stream") == tuple(
        Run(built.version, Status.OBSERVED, {"case": "answer"}, {"it, ms": 1.5})
        for built in (OLD, NEW)
    )
    ended = {
        "free_waits": (Status.NOT_RUN, "no device: because"),
        "stream_priorities": (Status.FAILED, "it was ended by SIGSEGV"),
        "device_uuid": (Status.FAILED, "it exited with 127: cannot open shared object"),
        "load_runtime": (Status.FAILED, "it printed no record: 'nothing of use'"),
        "graph_edges": (Status.FAILED, "it took longer than 0.5 s"),
    }
    for name, (status, reason) in ended.items():
        assert [(one.status, one.reason) for one in runs_of(found, name)] == [(status, reason)] * 2


def test_a_probe_finds_its_own_library_and_is_told_of_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/of/the/machine")
    says = 'printf \'{"observed": {"path": "%s", "other": "%s"}, "measured": {}}\''
    out = folder_of(tmp_path, free_waits=f'{says} "$LD_LIBRARY_PATH" "$1"')
    old, new = runs_of(run(out), "free_waits")
    assert old.observed == {
        "path": f"{out}/12.4:/of/the/machine",
        "other": f"{out}/13.3/libcudart.so.13",
    }
    assert new.observed["other"] == f"{out}/12.4/libcudart.so.12"


def test_a_folder_without_its_probes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Fa3Error, match="no such file"):
        run(tmp_path)
    out = folder_of(tmp_path)
    (out / "13.3" / PROBES[0].name).unlink()
    with pytest.raises(Fa3Error, match=f"13.3/{PROBES[0].name}: no such program"):
        run(out)


def test_what_was_observed_is_written_and_read(tmp_path: Path) -> None:
    found = run(folder_of(tmp_path, device_uuid="exit 3"))
    write(tmp_path / "behaviour.json", found)
    assert read(tmp_path / "behaviour.json") == found
    assert json.loads((tmp_path / "behaviour.json").read_text())["schema"] == 1


@pytest.mark.parametrize(
    "change, message",
    [({"kind": "something else"}, "its kind is 'something else'"), ({"probes": [{}]}, "damaged")],
)
def test_another_file_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = tmp_path / "behaviour.json"
    write(path, Observations(None, None, None, (OLD, NEW), ()))
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(Fa3Error, match=message):
        read(path)


def probed(*answers: str | None) -> Probed:
    runs = (
        Run("x", Status.NOT_RUN, reason="no | device")
        if answer is None
        else Run("x", Status.OBSERVED, {"a_case": answer}, {"ms": float(number)})
        for number, answer in enumerate(answers)
    )
    return Probed("name", "`f`?", "Yes.", "https://example.com/f", tuple(runs))


def test_toolkits_differ_in_answers_that_both_gave() -> None:
    assert probed("waits", "returns").differs
    assert not probed("waits", "waits").differs  # times are no behaviour
    assert not probed("waits", None).differs


def test_the_table_has_a_row_a_probe() -> None:
    rows = (probed("waits", "returns"), probed("waits", None))
    text = table(Observations("NVIDIA H200", "580.1", "13.0", (OLD, NEW), rows))
    assert text.splitlines() == [
        "Toolkits 12.4.131 and 13.3.73 on NVIDIA H200, driver 580.1, which supports CUDA 13.0.",
        "",
        "| question | CUDA 12.4 | CUDA 13.3 | documented |",
        "| --- | --- | --- | --- |",
        r"| **`f`?** | a\_case: waits | a\_case: returns | Yes. [(source)](https://example.com/f) |",
        r"| `f`? | a\_case: waits | *not-run: no \| device* | Yes. [(source)](https://example.com/f) |",
    ]
    no_driver = table(Observations(None, None, None, (OLD, NEW), ()))
    assert no_driver.startswith("Toolkits 12.4.131 and 13.3.73; no driver.")


def test_the_command_runs_without_any_other_package(tmp_path: Path) -> None:
    out = folder_of(tmp_path)
    code = "import runpy; runpy.run_module('fa3_matrix.migrate.probes', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, "run", out, "--output", tmp_path / "b.json"],
        env={"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "| question |" in done.stdout) == (0, True), done.stderr
    assert read(tmp_path / "b.json").toolkits == (OLD, NEW)


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(folder_of(tmp_path, graph_edges="exit 1"))]) == 1
    assert main(["table", str(tmp_path / "out" / "behaviour.json")]) == 0
    assert "failed: it exited with 1" in capsys.readouterr().out
    assert main(["table", str(tmp_path / "none.json")]) == 2
    assert "no such file" in capsys.readouterr().err


@pytest.mark.toolkit
def test_both_toolkits_compile_the_probes_which_run_or_say_why_not(tmp_path: Path) -> None:
    versions = [built.version for built in (OLD, NEW)]
    try:
        for version in versions:
            toolkits.find(version, provision=False)
    except ToolkitError as error:
        pytest.skip(f"needs both toolkits: {error}")
    build(tmp_path, versions)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*")) < 8_000_000
    found = run(tmp_path)
    ends = {
        one.reason for probe in found.probes for one in probe.runs if one.status is Status.FAILED
    }
    assert not ends
    # Loading a library needs no device; each toolkit's is found by its own name alone, or is another's.
    old, new = runs_of(found, "load_runtime")
    assert old.observed[OLD.library] == new.observed[NEW.library] == "opens"
    assert old.observed[NEW.library] != "opens"
    assert new.observed[OLD.library] != "opens"
    if found.gpu is None:
        needing = [probe for probe in found.probes if probe.name != "load_runtime"]
        assert all(
            one.reason is not None and one.reason.startswith("no device: ")
            for probe in needing
            for one in probe.runs
        )
