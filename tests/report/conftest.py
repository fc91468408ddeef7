"""A build folder as the earlier stages leave it: their JSON, without compilers or a GPU."""

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fa3_matrix import _json, matrix
from fa3_matrix.report import inputs, model

Json = dict[str, Any]

load_matrix = cache(matrix.load)
"""The matrix, read once for all tests: it takes half a second."""


@pytest.fixture(autouse=True, scope="module")
def _matrix_is_read_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrix, "load", load_matrix)
        yield


def variant(name: str, **more: Any) -> Json:
    """One variant of a manifest, as the build stage's audit writes it."""
    return {
        "name": name,
        "file": f"{name}.fatbin",
        "sha256": "0" * 64,
        "bytes": 61_440,
        "images": ["sm_90a"],
        "op": "fwd",
        "kernel": "sm80",
        "dtype": "bf16",
        "head_dim": 128,
        "block_m": 128,
        "block_n": 64,
        "threads": 128,
        "tma_columns": 0,
        "splits_keys": 0,
        "dynamic_shared_bytes": 98_304,
        "static_shared_bytes": 0,
        "registers": 240,
        "spill_store_bytes": 0,
        "spill_load_bytes": 0,
        "stack_bytes": 0,
        "occupancy": {"ctas_per_sm": 2, "warps_per_sm": 8, "limit": "registers"},
        "sass": {"instructions": 4200, "opcodes": {"HMMA": 512}, "sha256": "1" * 64},
        "compile_seconds": 7.5,
        "peak_compiler_bytes": 420_000_000,
        "advisories": [],
        "serves": [
            {
                "log2_seqlen_q": [7, 16],
                "log2_seqlen_k": [0, 16],
                "masks": ["full"],
                "layouts": ["aligned", "unaligned"],
            }
        ],
        "candidate": "",
    } | more


def compared(name: str, **b: Any) -> Json:
    """One row of a comparison: both arms alike but for what `b` says of the second."""
    a = {
        "registers": 240,
        "spill_bytes": 0,
        "stack_bytes": 0,
        "instructions": 4000,
        "ctas_per_sm": 2,
        "warps_per_sm": 8,
        "bytes": 60_000,
        "compile_seconds": 5.0,
    }
    opcodes = {"MOV": -14, "HMMA": 2} if b else {}
    return {"name": name, "a": a, "b": a | b, "opcodes": opcodes, "same_sass": not b}


class BuildFolder:
    """Writes the stages' JSON under `path`; every method returns what it wrote."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.matrix = load_matrix()

    def assembled(self) -> Json:
        """The report's data of what is there; no page is rendered."""
        return model.assemble(self.matrix, inputs.read(self.path))

    def manifest(self, cell: str, *variants: Json, **more: Any) -> Json:
        found = self.matrix.cell(cell)
        manifest = {
            "schema": 1,
            "cell": cell,
            "arch": found.arch.name,
            "target": str(found.target),
            "form": found.target.form,
            "forward_abi": 2,
            "toolkit": {"version": found.toolkit.version, "nvcc": "nvcc"},
            "assembled": {"target": "sm_100", "ptxas": "13.3.73"} if found.assemble else None,
            "git_revision": "c0ffee" * 6 + "1234",
            "git_dirty": False,
            "build_seconds": 31.5,
            "peak_compiler_bytes": 420_000_000,
            "variants": list(variants) or [variant(f"fa3_fwd_{found.arch.name}_bf16_d128_m128n64")],
        } | more
        _json.write_atomic(self.path / "cells" / cell / "fa3" / "manifest.json", manifest)
        return manifest

    def timing(self, cell: str, cold_seconds: float) -> Json:
        timing = {"schema": 1, "cold_seconds": cold_seconds, "jobs": 2}
        _json.write_atomic(self.path / "cells" / cell / "fa3_timing.json", timing)
        return timing

    def comparison(self, arch: str, a: str, b: str, *rows: Json) -> Json:
        arms = {"a": a, "b": b}
        comparison = {"arch": arch, **arms, "variants": list(rows), "only_a": [], "only_b": []}
        _json.write_atomic(self.path / "compare" / f"{arch}.json", comparison)
        return comparison

    def manifest_sha256(self, cell: str) -> str:
        path = self.path / "cells" / cell / "fa3" / "manifest.json"
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def result(self, kind: str, cell: str, state: str, **more: Any) -> Json:
        result = {
            "schema": 1,
            "kind": kind,
            "cell": cell,
            "state": state,
            "reason": "",
            "seconds": 12.0,
            "machine": {"gpu": None},
            "started": "2026-11-29T12:00:00+00:00",
        } | more
        _json.write_atomic(self.path / "results" / f"{kind}-{cell}.json", result)
        return result

    def peers(self, **more: Any) -> Json:
        peers = {"kind": "peers", "cell": ["sm90-cu133"], "state": "measured", "reason": ""} | more
        _json.write_atomic(self.path / "results" / "peers.json", peers)
        return peers

    def correctness(self, cell: str, state: str = "passed", **more: Any) -> Json:
        passed = {
            "suite": "smoke",
            "machine": {"gpu": "NVIDIA H200"},
            "counts": {"requested": 40, "run": 40, "passed": 40, "failed": 0, "not_run": 0},
            "worst": {"ratio": 0.61},
            "failures": [],
            "manifest_sha256": self.manifest_sha256(cell),
        }
        return self.result("correctness", cell, state, **(passed | more))


@pytest.fixture
def build(tmp_path: Path) -> BuildFolder:
    return BuildFolder(tmp_path / "build")
