"""The performance gate's part of the report's data: what its section shows, and its annotations.

Read from the documents alone, as JSON: `results/gate.json` (a judged run), `results/trials.json` (`trials`: the
documents of its trials) and `results/static-gate.json`. Each may be missing.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import count
from statistics import median

from fa3_matrix.bench.problems import Problem
from fa3_matrix.report.inputs import Inputs, Json

# What each outcome says, and so its exit code.
_MEANINGS = {
    "pass": "every cell tested is within its budget",
    "fail": "a cell is slower by more than its margin, confirmed on fresh trials",
    "inconclusive": "no cell was shown to be slower, and not every one was shown not to be",
    "incomplete": "the trials are not what was planned, so nothing was judged",
    "void": "a control differs where nothing can, so no verdict counts",
}
# GitHub shows ten errors of a step, and no word of the rest.
_MOST_ANNOTATIONS = 10
# Where suites, margins and waivers are stated: a time has no line of source to point at.
_ANNOTATED_FILE = "ci/matrix.toml"
_MOST_PAIR_PLOTS = 12


def assemble(inputs: Inputs) -> Json | None:
    """The section's data, or `None` where no run was judged.

    The keys of the gate's document, and besides: `meaning` of the outcome; `summary`, a sentence that counts;
    `control_counts`, cells by kind; `stale`, why it is not of the build at hand (else empty); `heat_maps`; of the
    trials `pairs` of the flagged cells and `trace` of clock and power; `no_trials`, why these two are empty (else
    empty).
    """
    gate = inputs.gate
    if gate is None:
        return None
    trials = _trials(gate, inputs)
    return gate | {
        "cells": [cell | {"hints": cell.get("hints", [])} for cell in gate["cells"]],
        "meaning": _MEANINGS[gate["outcome"]],
        "summary": _summary(gate),
        "control_counts": Counter(kind for *_, kind in dict.fromkeys(map(_key, gate["controls"]))),
        "stale": _stale(gate, inputs),
        "heat_maps": _heat_maps(gate["cells"]),
        "pairs": _pairs(gate, trials),
        "trace": _trace(trials),
        "no_trials": "" if trials else _no_trials(inputs),
    }


def not_run(inputs: Inputs, cells: Sequence[str]) -> list[Json]:
    """A line for each gate that has not judged anything."""
    missing = [
        ("gate", inputs.gate, "no two builds were timed side by side on a GPU and judged"),
        ("static gate", inputs.static_gate, "no build was held to a base's"),
    ]
    return [
        {"stage": stage, "reason": reason, "cells": list(cells)}
        for stage, document, reason in missing
        if document is None
    ]


def annotations(report: Json) -> str:
    """Workflow commands that make GitHub show what is wrong, ten lines at most; empty when all is well.

    What fails a run is an error; what a run that does not fail leaves undecided is a warning.
    """
    gate, static = report["gate"], report["static_gate"]
    lines = []
    if gate is not None and gate["outcome"] != "pass":
        level = "warning" if gate["outcome"] == "inconclusive" else "error"
        title = f"performance gate: {gate['outcome']}"
        lines += [_annotation(level, title, reason) for reason in gate["reasons"]]
    if static is not None:
        lines += [
            _annotation("error", f"static gate: {finding['rule']}", finding["message"])
            for finding in static["findings"]
            if finding["waiver"] is None
        ]
    if len(lines) > _MOST_ANNOTATIONS:
        kept = _MOST_ANNOTATIONS - 1
        more = f"{len(lines) - kept} more are in the report"
        lines = [*lines[:kept], _annotation("error", "gate", more)]
    return "".join(f"{line}\n" for line in lines)


def _annotation(level: str, title: str, message: str) -> str:
    def escaped(text: str, *signs: str) -> str:
        for sign in ("%", "\r", "\n", *signs):
            text = text.replace(sign, f"%{ord(sign):02X}")
        return text

    # A property ends at a comma and a command at a colon, the message at the line's end.
    return f"::{level} file={_ANNOTATED_FILE},title={escaped(title, ':', ',')}::{escaped(message)}"


def _summary(gate: Json) -> str:
    counts = gate["counts"]
    tested = Counter(cell["verdict"] for cell in gate["cells"] if cell["stage"] is not None)
    parts = [
        f"{counts['fail']} failed",
        f"{counts['inconclusive']} inconclusive",
        f"{counts['pass']} passed",
    ]
    return (
        f"{tested.total()} of {sum(counts.values())} cells tested: {', '.join(parts)}; "
        f"{counts['no-pair']} without a pair."
    )


def _stale(gate: Json, inputs: Inputs) -> str:
    head = gate["head"]
    at_hand = inputs.manifest_sha256.get(head["cell"], head["manifest_sha256"])
    if at_hand == head["manifest_sha256"]:
        return ""
    return f"head was another build of {head['cell']} than the one at hand; judge again"


def _trials(gate: Json, inputs: Inputs) -> list[Json]:
    """The judged run's trials, in the order taken. A comparison of the same arms may have replaced the file since."""
    arms = {"base": gate["base"], "head": gate["head"]}
    seeds = {
        (stage, seed) for stage, summary in gate["stages"].items() for seed in summary["seeds"]
    }
    found = [
        trial
        for trial in inputs.trials or ()
        # An incomplete run states no seeds.
        if trial["arms"] == arms and (not seeds or (trial["stage"], trial["seed"]) in seeds)
    ]
    return sorted(found, key=lambda trial: (trial["stage"] == "confirm", trial["number"]))


def _no_trials(inputs: Inputs) -> str:
    if inputs.trials is None:
        return "the trials' documents are not at hand"
    return "the trials at hand are of another run"


def _key(cell: Json) -> tuple[str, str, str, str | None]:
    return cell["suite"], cell["problem"], cell["mode"], cell["control"]


def _pairs(gate: Json, trials: list[Json]) -> list[Json]:
    """Of the flagged cells, failed and slowest first: each kept pair's ratio, by trial of the stage that decided."""
    flagged = [cell for cell in gate["cells"] if cell["p_adjusted"] is not None]
    flagged.sort(key=lambda cell: (cell["verdict"] != "fail", -(cell["ratio"] or 0)))
    found = []
    for cell in flagged[:_MOST_PAIR_PLOTS]:
        ratios = [
            _kept_ratios(entry["pairs"])
            for trial in trials
            if trial["stage"] == cell["stage"]
            for entry in trial["cells"]
            if _key(entry) == _key(cell) and entry["failed"] is None
        ]
        if any(ratios):
            shown = ("suite", "mode", "label", "margin", "ratio", "interval", "verdict")
            trials_of_cell = {"trials": [trial for trial in ratios if trial]}
            found.append({key: cell[key] for key in shown} | trials_of_cell)
    return found


def _kept_ratios(pairs: Json) -> list[float]:
    columns = zip(pairs["base_ns"], pairs["head_ns"], pairs["dropped"], strict=True)
    return [round(head / base, 6) for base, head, dropped in columns if dropped is None]


def _trace(trials: list[Json]) -> Json:
    """Clock and power over the run, in columns: an entry is one cell in one trial, in the order timed.

    `trials`: how many entries each has. `base_mhz`, `head_mhz`, `watts`: medians over pairs; `low_mhz`, `high_mhz`:
    extremes of both arms; null where nothing was readable. `dropped`: pairs that do not count.
    """
    columns = ("base_mhz", "head_mhz", "low_mhz", "high_mhz", "watts", "dropped")
    trace: Json = {"trials": [], **{column: [] for column in columns}}
    for trial in trials:
        timed = [cell["pairs"] for cell in trial["cells"] if cell["failed"] is None]
        trace["trials"].append(
            {"stage": trial["stage"], "number": trial["number"], "cells": len(timed)}
        )
        for pairs in timed:
            base, head = (_readable(pairs[f"{arm}_mhz"]) for arm in ("base", "head"))
            watts = _readable(pairs["watts"])
            trace["base_mhz"].append(median(base) if base else None)
            trace["head_mhz"].append(median(head) if head else None)
            trace["low_mhz"].append(min(base + head, default=None))
            trace["high_mhz"].append(max(base + head, default=None))
            trace["watts"].append(median(watts) if watts else None)
            trace["dropped"].append(sum(why is not None for why in pairs["dropped"]))
    return trace


def _readable(values: list[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _heat_maps(cells: list[Json]) -> list[Json]:
    """A map for each suite and mode. `title`: these and what all its cells share; `rows` and `columns`: their names;
    `places`: each cell's row, column and index."""
    groups: dict[tuple[str, str], list[int]] = {}
    for index, cell in enumerate(cells):
        groups.setdefault((cell["suite"], cell["mode"]), []).append(index)
    return [
        _heat_map([suite, mode], cells, members)
        for (suite, mode), members in groups.items()
        if any(cells[index]["ratio"] is not None for index in members)
    ]


def _heat_map(title: list[str], cells: list[Json], members: list[int]) -> Json:
    problems = {index: _problem(cells[index]["problem"]) for index in members}
    words = {index: _words(cells[index], problem) for index, problem in problems.items()}
    met = Counter((words[index], _column(problem)) for index, problem in problems.items())
    crowded = {row for (row, _), number in met.items() if number > 1}
    for index, problem in problems.items():
        if problem is not None and words[index] in crowded:
            words[index] += (f"b{problem.batch}",)
    shared = [word for word in words[members[0]] if all(word in row for row in words.values())]
    columns = sorted({_column(problem) for problem in problems.values()})
    rows: dict[str, dict[int, int]] = {}
    for index, problem in problems.items():
        row, column = (
            " ".join(word for word in words[index] if word not in shared),
            _column(problem),
        )
        # Lengths of sequences, seeds and the like may still tell two apart.
        names = (row if number == 1 else f"{row} ({number})".strip() for number in count(1))
        free = next(name for name in names if columns.index(column) not in rows.get(name, {}))
        rows.setdefault(free, {})[columns.index(column)] = index
    return {
        "title": ", ".join([*title, " ".join(shared)] if shared else title),
        "rows": list(rows),
        "columns": [name for *_, name in columns],
        "places": [
            [row, column, index]
            for row, placed in enumerate(rows.values())
            for column, index in placed.items()
        ],
    }


def _problem(text: str) -> Problem | None:
    try:
        return Problem.parse(text)
    except ValueError:
        return None  # of another version: shown by its label


def _column(problem: Problem | None) -> tuple[bool, int, int, str]:
    """What columns are sorted by, square problems first and then by length, and the column's name."""
    if problem is None:
        return True, 0, 0, ""
    q, k = problem.seqlen_q, problem.seqlen_k
    return q != k, k, q, str(k) if q == k else f"q{q}\nk{k}"


def _words(cell: Json, problem: Problem | None) -> tuple[str, ...]:
    """What tells the rows of a heat map apart: all but the lengths and the batch."""
    if problem is None:
        return (cell["label"],)
    window = problem.window != (-1, -1)
    words = [
        f"d{problem.head_dim}",
        f"window {problem.window[0]},{problem.window[1]}" if window else "",
        "causal" if problem.causal else "" if window else "full",
        problem.dtype,
        f"h{problem.heads_q}" + (f"/{problem.heads_k}" if problem.group > 1 else ""),
        "varlen" if problem.is_varlen else "",
        "" if problem.page_size or not problem.is_cache else "cache",
        f"pages of {problem.page_size}" if problem.page_size else "",
        f"new {problem.new_rows}" if problem.new_rows else "",
        f"softcap {problem.softcap:g}" if problem.softcap else "",
        f"splits {problem.num_splits}" if problem.num_splits > 1 else "",
    ]
    return tuple(word for word in words if word)
