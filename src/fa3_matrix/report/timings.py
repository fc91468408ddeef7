"""Times in the report: each arch's two toolkits side by side, and where every time stands under the GPU's ceilings.

Only times of one process are put beside each other: those of `bench run`, whose documents of one run start at the same
moment on the same GPU, and those of `gate compare`.
"""

import math
from collections.abc import Iterable, Iterator
from statistics import median

from fa3_matrix.matrix import Cell, Matrix, Twin
from fa3_matrix.report.inputs import Inputs, Json

_NO_CEILINGS = "no GEMM and no copy were timed in that run"
_NO_WORK = "its rows do not say how much is computed and moved"


def assemble(matrix: Matrix, inputs: Inputs) -> list[Json]:
    """An entry for each arch (and each arch's twins) in each run that timed a build of it.

    `title`, `run`, `gpu`, `started`. `arms`: the builds, older toolkit first, with `name` and `toolkit`. `ceilings` of
    the run or null, and `no_roofline`, why there is none to draw (else empty). `suites`: of two arms their ratio,
    summed up. `rows`: `suite`, `name`, `us` by build, `ratio` (the newer toolkit's time over the older's, null for one
    arm), and `intensity` (FLOP a byte) and `tflops` by build, null where the run does not say.
    """
    runs = [*_bench_runs(inputs), *_peer_runs(inputs)]
    return [entry for run in runs for arms in _arms(matrix) if (entry := _entry(run, arms))]


def side_by_side(inputs: Inputs) -> Json | None:
    """The last `gate compare`, which measures two builds in several processes, with `suites` as above."""
    found = inputs.comparison
    if found is None:
        return None
    rows = [cell for cell in found["cells"] if cell["ratio"] is not None and not cell["control"]]
    named = [{"suite": row["suite"], "name": row["label"], "ratio": row["ratio"]} for row in rows]
    return found | {"cells": rows, "suites": _suites(named)}


def costs(inputs: Inputs) -> list[Json]:
    """What a call of each arm, build or peer, costs besides its time on the device, in each run that says.

    `gpu`, `started`, and `arms`: `name`, `problems`, medians over these of `launch_us` (the host's time in a call) and
    `idle_us` (the device's around one), the largest `workspace_bytes`, and of graphs how many of those `asked` for were
    `captured` and the worst `p99` and `p999` over p50. Null where nothing was measured.
    """
    runs: dict[tuple[str, str], Json] = {}
    figures: dict[tuple[str, str], dict[str, list[Json]]] = {}
    for run, documents in _performance(inputs).items():
        runs[run] = documents[0]
        figures[run] = {document["cell"]: document["results"] for document in documents}
    if inputs.peers and inputs.peers.get("results"):
        arms: dict[str, list[Json]] = {}
        for row in inputs.peers["results"]:
            for name, arm in row["arms"].items():
                arms.setdefault(name, []).append(arm)
        run = _run_of(inputs.peers)
        runs.setdefault(run, inputs.peers)
        figures[run] = arms | figures.get(run, {})
    return [
        {"gpu": runs[run]["machine"]["gpu"], "started": run[0], "arms": found}
        for run, arms in figures.items()
        if (found := [_cost(name, rows) for name, rows in arms.items() if "idle_us" in rows[0]])
    ]


def _cost(name: str, rows: list[Json]) -> Json:
    graphs = [row["graph"] for row in rows if row["graph"]]
    captured = [graph for graph in graphs if not graph["error"]]
    workspaces = [row["memory"]["workspace_bytes"] for row in rows if row["memory"]]
    return {
        "name": name,
        "problems": len(rows),
        "launch_us": median(row["launch_us"] for row in rows),
        "idle_us": median(row["idle_us"] for row in rows),
        "workspace_bytes": max(workspaces, default=None),
        "asked": len(graphs),
        "captured": len(captured),
        "p99": max((graph["p99_us"] / graph["p50_us"] for graph in captured), default=None),
        "p999": max((graph["p999_us"] / graph["p50_us"] for graph in captured), default=None),
    }


def _arms(matrix: Matrix) -> Iterator[list[Cell | Twin]]:
    """What is alike but for its toolkit."""
    order = [toolkit.version for toolkit in matrix.toolkits]
    for builds in (matrix.cells, matrix.twins):
        for arch in matrix.archs:
            arms = [build for build in builds if build.arch == arch]
            yield sorted(arms, key=lambda arm: order.index(arm.toolkit.version))


def _bench_runs(inputs: Inputs) -> Iterator[Json]:
    for documents in _performance(inputs).values():
        rows: dict[tuple[str, str], Json] = {}
        for document in documents:
            for row in document["results"]:
                entry = rows.setdefault((row["suite"], row["problem"]), _row(row))
                entry["us"][document["cell"]] = row["median_us"]
        yield _run("bench run", documents[0], rows.values())


def _peer_runs(inputs: Inputs) -> Iterator[Json]:
    peers = inputs.peers
    # A run that timed peers beside the builds has written the builds' times in both documents.
    if peers and peers.get("results") and _run_of(peers) not in _performance(inputs):
        rows = []
        for row in peers["results"]:
            times = {name: arm["median_us"] for name, arm in row["arms"].items()}
            rows.append(_row(row) | {"us": times})
        yield _run("bench run --peers", peers, rows)


def _performance(inputs: Inputs) -> dict[tuple[str, str], list[Json]]:
    """The builds' documents by run."""
    runs: dict[tuple[str, str], list[Json]] = {}
    for (kind, _), result in sorted(inputs.results.items()):
        if kind == "performance" and result.get("results"):
            runs.setdefault(_run_of(result), []).append(result)
    return runs


def _run_of(document: Json) -> tuple[str, str]:
    return document.get("started", ""), document["machine"].get("uuid") or ""


def _row(row: Json) -> Json:
    return {
        "suite": row["suite"],
        "name": row["name"],
        "flops": row.get("flops"),
        "bytes": row.get("bytes"),
        "us": {},
    }


def _run(name: str, document: Json, rows: Iterable[Json]) -> Json:
    return {
        "run": name,
        "gpu": document["machine"]["gpu"],
        "started": document.get("started", ""),
        "ceilings": document.get("ceilings"),
        "rows": list(rows),
    }


def _entry(run: Json, builds: list[Cell | Twin]) -> Json | None:
    timed = [build for build in builds if any(build.name in row["us"] for row in run["rows"])]
    if not timed:
        return None
    names = [build.name for build in timed]
    rows = [_placed(row, names) for row in run["rows"] if any(name in row["us"] for name in names)]
    worked = any(row["intensity"] is not None for row in rows)
    return {
        "title": " → ".join(names),
        "run": run["run"],
        "gpu": run["gpu"],
        "started": run["started"],
        "arms": [{"name": build.name, "toolkit": build.toolkit.version} for build in timed],
        "ceilings": run["ceilings"],
        "no_roofline": "" if run["ceilings"] and worked else _NO_CEILINGS if worked else _NO_WORK,
        "suites": _suites(row for row in rows if row["ratio"] is not None),
        "rows": rows,
    }


def _placed(row: Json, names: list[str]) -> Json:
    us = {name: row["us"][name] for name in names if name in row["us"]}
    flops, moved = row["flops"], row["bytes"]
    return {
        "suite": row["suite"],
        "name": row["name"],
        "us": us,
        "ratio": us[names[-1]] / us[names[0]] if len(us) > 1 else None,
        "intensity": flops / moved if flops and moved else None,
        "tflops": {name: flops / time * 1e-6 for name, time in us.items()} if flops else None,
    }


def _suites(rows: Iterable[Json]) -> list[Json]:
    """Of each suite how many problems, the geometric mean of their ratios, and the two ends."""
    by_suite: dict[str, list[Json]] = {}
    for row in rows:
        by_suite.setdefault(row["suite"], []).append(row)
    return [
        {
            "suite": suite,
            "problems": len(found),
            "geomean": math.exp(math.fsum(math.log(row["ratio"]) for row in found) / len(found)),
            **{
                end: {key: of(found, key=_ratio)[key] for key in ("name", "ratio")}
                for end, of in (("fastest", min), ("slowest", max))
            },
        }
        for suite, found in by_suite.items()
    ]


def _ratio(row: Json) -> float:
    return float(row["ratio"])
