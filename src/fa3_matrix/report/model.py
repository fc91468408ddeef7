"""The report as data: what `report.json` holds and the only thing that the pages are rendered from."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from fa3_matrix.matrix import Cell, Gpu, Matrix, Twin
from fa3_matrix.report import gate_page, migration, timings, trend
from fa3_matrix.report.inputs import Inputs, Json

# What the project promises of a cold build of all cells, on 2 cores.
COLD_BUILD_BUDGET_SECONDS = 300.0
COMPILER_MEMORY_BUDGET_BYTES = 2_000_000_000

# The stages of a cell in the order a reader meets them.
STAGES = ("build", "audit", "compare", "correctness", "performance")


@dataclass(frozen=True)
class _Stage:
    """How far one stage of one cell got: "passed", "measured", "failed", "stale", "not run", "does not apply"."""

    state: str
    text: str

    def json(self) -> Json:
        return {"state": self.state, "text": self.text}


def assemble(matrix: Matrix, inputs: Inputs) -> Json:
    """Returns the report of `inputs` for all cells and twins of `matrix`, built or not.

    `cells` and `twins` are keyed by name, each entry with at least `state` ("failed", "not built",
    "built", "tested"), `reason` (a sentence, empty when there is nothing to say), `seconds` (of the
    build, null when not built) and `variants`.
    """
    cells = {cell.name: _cell(cell, matrix, inputs) for cell in matrix.cells}
    twins = {twin.name: _cell(twin, matrix, inputs) for twin in matrix.twins}
    everything = cells | twins
    return {
        "generated": datetime.now(UTC).isoformat(timespec="seconds"),
        "revisions": _revisions(inputs),
        "toolkits": [{"version": t.version, "label": t.label} for t in matrix.toolkits],
        "archs": [{"name": a.name, "description": a.description} for a in matrix.archs],
        "headline": _headline(cells),
        "figures": _figures(cells, inputs),
        "cells": cells,
        "twins": twins,
        "comparisons": _comparisons(matrix, inputs),
        "advisories": _advisories(inputs),
        "failures": [
            {
                "cell": name,
                "stage": stage,
                "text": entry["stages"][stage]["text"],
                "output": inputs.results.get((stage, name), {}).get("output", ""),
            }
            for name, entry in everything.items()
            for stage in STAGES
            if entry["stages"][stage]["state"] == "failed"
        ],
        "not_run": [
            *_not_run(everything),
            *_peers_not_run(inputs),
            *gate_page.not_run(inputs, list(cells)),
            *migration.not_run(inputs),
        ],
        "correctness": _ran("correctness", inputs),
        "performance": _ran("performance", inputs),
        "peers": inputs.peers if inputs.peers and inputs.peers["state"] != "not run" else None,
        "gate": gate_page.assemble(inputs),
        "static_gate": inputs.static_gate,
        "timings": timings.assemble(matrix, inputs),
        "costs": timings.costs(inputs),
        "side_by_side": timings.side_by_side(inputs),
        "trend": trend.assemble(inputs.history),
        "migration": migration.assemble(inputs),
    }


def _cell(cell: Cell | Twin, matrix: Matrix, inputs: Inputs) -> Json:
    manifest = inputs.manifests.get(cell.name)
    gpu = cell.arch.gpu
    if isinstance(cell, Twin):
        gpu = next(g for g in matrix.gpus if any(map(cell.target.runs_on, g.capabilities)))
    stages = {
        "build": _build_stage(cell.name, inputs),
        "audit": _audit_stage(cell.name, inputs),
        "compare": _compare_stage(cell, inputs),
        "correctness": _result_stage("correctness", cell, gpu, inputs),
        "performance": _result_stage("performance", cell, gpu, inputs),
    }
    state, reason = _state(stages)
    return {
        "arch": cell.arch.name,
        "toolkit": cell.toolkit.version,
        "target": str(cell.target),
        "form": cell.target.form,
        "note": "" if isinstance(cell, Twin) else cell.reason,
        "state": state,
        "reason": reason,
        "seconds": _seconds(cell.name, inputs),
        "peak_compiler_bytes": manifest["peak_compiler_bytes"] if manifest else None,
        "stages": {name: stage.json() for name, stage in stages.items()},
        "variants": manifest["variants"] if manifest else [],
    }


def _seconds(name: str, inputs: Inputs) -> float | None:
    """What building the cell from nothing took; of a build made elsewhere, while its compilers ran."""
    if name not in inputs.manifests:
        return None
    timing = inputs.timings.get(name)
    seconds: float = timing["cold_seconds"] if timing else inputs.manifests[name]["build_seconds"]
    return seconds


def _state(stages: dict[str, _Stage]) -> tuple[str, str]:
    failed = next((stage for stage in stages.values() if stage.state == "failed"), None)
    if failed:
        return "failed", failed.text
    if stages["build"].state != "passed":
        return "not built", stages["build"].text
    if stages["correctness"].state == "passed":
        return "tested", ""
    return "built", f"correctness {stages['correctness'].state}: {stages['correctness'].text}"


def _build_stage(name: str, inputs: Inputs) -> _Stage:
    failure = inputs.results.get(("build", name))
    if failure:
        return _Stage("failed", failure["reason"])
    manifest = inputs.manifests.get(name)
    if not manifest:
        return _Stage("not run", f"no build yet: `nox -s build-{name}` makes it")
    return _Stage("passed", f"{len(manifest['variants'])} variants")


def _audit_stage(name: str, inputs: Inputs) -> _Stage:
    # The manifest is written by the audit, last: it exists only for a build that passed.
    manifest = inputs.manifests.get(name)
    if ("build", name) in inputs.results or not manifest:
        return _Stage("not run", "no build to audit")
    images = {image for variant in manifest["variants"] for image in variant["images"]}
    return _Stage("passed", f"every fatbin holds {', '.join(sorted(images))} and nothing else")


def _compare_stage(cell: Cell | Twin, inputs: Inputs) -> _Stage:
    comparison = inputs.comparisons.get(cell.arch.name)
    if isinstance(cell, Twin):
        return _Stage("does not apply", "cells are compared, not their twins")
    if ("build", cell.name) in inputs.results:
        return _Stage("not run", "the last build failed")
    if comparison and cell.name in (comparison["a"], comparison["b"]):
        return _Stage("passed", f"{comparison['a']} with {comparison['b']}")
    return _Stage("not run", "needs both toolkits' builds of this arch")


def _result_stage(kind: str, cell: Cell | Twin, gpu: Gpu, inputs: Inputs) -> _Stage:
    result = inputs.results.get((kind, cell.name))
    if not result:
        session = {"correctness": "correctness", "performance": "bench"}[kind]
        return _Stage(
            "not run", f"`nox -s {session}-{gpu.name}` runs it on {' or '.join(gpu.products)}"
        )
    if result["state"] in ("failed", "not run"):
        return _Stage(result["state"], result["reason"])
    if result["manifest_sha256"] != inputs.manifest_sha256.get(cell.name):
        return _Stage("stale", "the last run was of another build; run it again")
    gpu = result["machine"]["gpu"]
    if kind == "performance":
        return _Stage("measured", f"{len(result['results'])} problems timed on {gpu}")
    return _Stage("passed", f"{result['counts']['passed']} problems on {gpu}")


def _headline(cells: dict[str, Json]) -> str:
    """One sentence: what a reader who stops here must know."""
    total = len(cells)
    count = dict.fromkeys(("failed", "not built", "built", "tested"), 0)
    for entry in cells.values():
        count[entry["state"]] += 1
    parts = [f"{count['built'] + count['tested']} of {total} cells built and audited"]
    if count["failed"]:
        parts.append(f"{count['failed']} failed")
    if count["not built"]:
        parts.append(f"{count['not built']} not built")
    tested = f"{count['tested']} of {total}" if count["tested"] else "none"
    parts.append(f"{tested} tested on a GPU")
    reasons = {entry["reason"] for entry in cells.values() if entry["state"] == "built"}
    # One reason for all of them belongs in the sentence; several are in the table.
    why = f" ({reasons.pop()})" if len(reasons) == 1 else ""
    return "; ".join(parts) + why + "."


def _figures(cells: dict[str, Json], inputs: Inputs) -> Json:
    """The two figures that the project promises: seconds to build all cells, largest compiler process."""
    built = [entry for entry in cells.values() if entry["seconds"] is not None]
    return {
        "cells_measured": len(built),
        "cells_total": len(cells),
        "build_seconds": sum(entry["seconds"] for entry in built) if built else None,
        "build_budget_seconds": COLD_BUILD_BUDGET_SECONDS,
        "peak_compiler_bytes": max(
            (manifest["peak_compiler_bytes"] for manifest in inputs.manifests.values()),
            default=None,
        ),
        "compiler_budget_bytes": COMPILER_MEMORY_BUDGET_BYTES,
        "bytes": sum(v["bytes"] for entry in built for v in entry["variants"]),
    }


def _revisions(inputs: Inputs) -> list[str]:
    """The git revisions of the builds in hand; more than one means that not all are current."""
    return sorted(
        {
            manifest["git_revision"] + ("-dirty" if manifest["git_dirty"] else "")
            for manifest in inputs.manifests.values()
            if manifest["git_revision"]
        }
    )


def _advisories(inputs: Inputs) -> list[Json]:
    """What the compilers said of a variant: advisories and spills, waived or they would have failed the build."""
    found: list[Json] = []
    for cell, manifest in inputs.manifests.items():
        for variant in manifest["variants"]:
            texts = list(variant["advisories"])
            stored, loaded = variant["spill_store_bytes"], variant["spill_load_bytes"]
            if stored or loaded:
                texts.append(f"spills {stored} bytes out, {loaded} bytes in")
            found += [{"cell": cell, "variant": variant["name"], "text": text} for text in texts]
    return found


def _not_run(entries: dict[str, Json]) -> list[Json]:
    """What was not run or serves nothing, grouped by stage and reason so that one cause is one line."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for name, entry in entries.items():
        for reason, number in Counter(v["candidate"] for v in entry["variants"]).items():
            if reason:
                text = f"{number} candidate variants serve no problem: {reason}"
                grouped.setdefault(("use", text), []).append(name)
        for stage in STAGES:
            state, text = entry["stages"][stage]["state"], entry["stages"][stage]["text"]
            if state in ("not run", "stale"):
                grouped.setdefault((stage, text), []).append(name)
    return [
        {"stage": stage, "reason": text, "cells": names} for (stage, text), names in grouped.items()
    ]


def _peers_not_run(inputs: Inputs) -> list[Json]:
    peers = inputs.peers
    if not peers or peers["state"] != "not run":
        return []
    return [{"stage": "peers", "reason": peers["reason"], "cells": peers["cell"]}]


def _ran(kind: str, inputs: Inputs) -> list[Json]:
    return [
        result
        for (of, _), result in sorted(inputs.results.items())
        if of == kind and result["state"] != "not run"
    ]


def _comparisons(matrix: Matrix, inputs: Inputs) -> list[Json]:
    found = [inputs.comparisons[a.name] for a in matrix.archs if a.name in inputs.comparisons]
    return [
        comparison
        | {
            "toolkits": [matrix.cell(comparison[arm]).toolkit.version for arm in ("a", "b")],
            "summary": _summary(comparison),
            "note": " ".join(_assembly_note(inputs, comparison[arm]) for arm in ("a", "b")).strip(),
        }
        for comparison in found
    ]


def _assembly_note(inputs: Inputs, cell: str) -> str:
    """Says where the figures of a PTX cell come from, whose fatbins hold no SASS to count."""
    assembled = inputs.manifests[cell]["assembled"] if cell in inputs.manifests else None
    if not assembled:
        return ""
    return (
        f"{cell} is PTX: its registers and SASS are of that PTX assembled for {assembled['target']} "
        f"by ptxas {assembled['ptxas']}, as a driver would."
    )


def _summary(comparison: Json) -> Json:
    """One arch's comparison in a row: [with a's toolkit, with b's], or how many variants changed."""
    rows = comparison["variants"]

    def total(key: str) -> list[float]:
        return [sum(row[arm][key] for row in rows) for arm in ("a", "b")]

    def changed(key: str, sign: int) -> int:
        return sum(sign * (row["b"][key] - row["a"][key]) > 0 for row in rows)

    return {
        "variants": len(rows),
        "same_sass": sum(row["same_sass"] for row in rows),
        "instructions": total("instructions"),
        "spill_bytes": total("spill_bytes"),
        "more_registers": changed("registers", 1),
        "fewer_registers": changed("registers", -1),
        "higher_occupancy": changed("warps_per_sm", 1),
        "lower_occupancy": changed("warps_per_sm", -1),
        "bytes": total("bytes"),
        "compile_seconds": total("compile_seconds"),
    }
