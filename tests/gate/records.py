"""A variant's record, for tests of what the gate reads in it."""

from dataclasses import replace
from typing import Any

from fa3_matrix.build.manifest import OccupancyRecord, SassRecord, VariantRecord

NAME = "fa3_fwd_sm90_bf16_d128_m128n128"


def variant(name: str = NAME, **more: Any) -> VariantRecord:
    """A variant as the audit describes it, but for `more`."""
    plain = VariantRecord(
        name=name,
        file=f"{name}.fatbin",
        sha256="0" * 64,
        bytes=300_000,
        images=["sm_90a"],
        op="fwd",
        kernel="sm90",
        dtype="bf16",
        head_dim=128,
        block_m=128,
        block_n=128,
        stages=2,
        threads=384,
        tma_columns=64,
        splits_keys=0,
        dynamic_shared_bytes=164_864,
        static_shared_bytes=0,
        registers=168,
        barriers=3,
        spill_store_bytes=0,
        spill_load_bytes=0,
        spill_waiver="",
        stack_bytes=0,
        occupancy=OccupancyRecord(2, 24, "registers"),
        sass=SassRecord(4000, {"HGMMA": 37, "IMAD": 3963}, "1" * 64),
        compile_seconds=1.5,
        peak_compiler_bytes=120_000_000,
        advisories=[],
        serves=[],
        candidate="",
    )
    return replace(plain, **more)
