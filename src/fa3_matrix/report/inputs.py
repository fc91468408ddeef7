"""What the report reads: the JSON that the earlier stages wrote under `build/`, and nothing else.

| file | written by | read here as |
|---|---|---|
| `cells/<cell or twin>/fa3/manifest.json` | the build stage, after its audit passed | `Inputs.manifests` |
| `cells/<cell or twin>/fa3_timing.json` | the build stage, when it built from nothing | `Inputs.timings` |
| `compare/<arch>.json` | the build stage: one arch's two toolkits, variant by variant | `Inputs.comparisons` |
| `results/<kind>-<cell>.json` | whatever ran or tried to run something | `Inputs.results` |
| `results/gate.json` | the gate: a judged run (`fa3_matrix.gate.run`) | `Inputs.gate` |
| `results/trials.json` | the gate: `trials`, the documents of a run's trials | `Inputs.trials` |
| `results/static-gate.json` | the static gate (`fa3_matrix.gate.static`) | `Inputs.static_gate` |
| `results/comparison.json` | `gate compare`: two builds timed side by side, not judged | `Inputs.comparison` |
| `results/migrate.json` | the session `migrate`: a scan of this tree, as JSON | `Inputs.migrate` |
| `results/behaviour.json` | the behaviour probes (`fa3_matrix.migrate.probes`) | `Inputs.behaviour` |
| `history/**/*.json` | whoever keeps results of pytest-benchmark there | `Inputs.history`, the folder |

A result is one run of one kind on one cell, and a later run replaces it. `fa3_matrix.bench.results`
states the keys of the kinds "correctness", "performance" and "peers". The build stage adds the kind
"build", only for a cell that failed: `state` "failed", `reason` (a line) and `output` (all of it). A
result whose `manifest_sha256` is not that of the cell's manifest is of another build, and is shown as
stale, never as a pass.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fa3_matrix import _json

Json = dict[str, Any]


@dataclass(frozen=True)
class Inputs:
    """Everything found under one build folder, keyed as the report looks it up."""

    manifests: dict[str, Json]
    """Of each cell or twin that has been built and audited."""
    manifest_sha256: dict[str, str]
    timings: dict[str, Json]
    """What the last build from nothing took: `cold_seconds` of configure, compile and audit."""
    comparisons: dict[str, Json]
    """By arch."""
    results: dict[tuple[str, str], Json]
    """By (kind, cell)."""
    peers: Json | None
    """The comparison of builds with other implementations, which is of several cells at once."""
    gate: Json | None
    """Two builds' times, judged; an entry of its `cells` may have `hints`, texts on what else differs."""
    trials: list[Json] | None
    static_gate: Json | None
    comparison: Json | None
    migrate: Json | None
    behaviour: Json | None
    history: Path
    """Read in place by `fa3_matrix.report.trend`; need not exist."""


def read(build: Path) -> Inputs:
    """Reads the stages' JSON under `build`; what has not been written yet is simply absent.

    Raises Fa3Error when a file is not JSON or states another schema version.
    """
    manifests = {
        path.parents[1].name: path for path in sorted(build.glob("cells/*/fa3/manifest.json"))
    }
    documents = {path.stem: _json.read(path) for path in sorted(build.glob("results/*.json"))}
    names = ("gate", "trials", "static-gate", "comparison", "migrate", "behaviour")
    of_their_own = {name: documents.pop(name, None) for name in names}
    trials = of_their_own["trials"]
    results = list(documents.values())
    return Inputs(
        manifests={cell: _json.read(path) for cell, path in manifests.items()},
        manifest_sha256={
            cell: hashlib.sha256(path.read_bytes()).hexdigest() for cell, path in manifests.items()
        },
        timings={
            path.parent.name: _json.read(path)
            for path in sorted(build.glob("cells/*/fa3_timing.json"))
        },
        comparisons={path.stem: _json.read(path) for path in sorted(build.glob("compare/*.json"))},
        # What names no cell, or several, is not of one.
        results={
            (result["kind"], result["cell"]): result
            for result in results
            if isinstance(result.get("cell"), str)
        },
        peers=next((result for result in results if result.get("kind") == "peers"), None),
        gate=of_their_own["gate"],
        trials=trials["trials"] if trials else None,
        static_gate=of_their_own["static-gate"],
        comparison=of_their_own["comparison"],
        migrate=of_their_own["migrate"],
        behaviour=of_their_own["behaviour"],
        history=build / "history",
    )
