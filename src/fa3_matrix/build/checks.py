"""The single checks of the audit; each raises AuditError saying what was found and what was asked for."""

import re
from collections.abc import Collection
from pathlib import Path

from fa3_matrix.build import cubin, fatbin, ptxas
from fa3_matrix.errors import AuditError
from fa3_matrix.matrix import Target, Variant

_ABI_VERSION = re.compile(r"kForwardAbiVersion\s*=\s*(\d+)\s*;")


def abi_version(source: Path) -> int:
    """``kForwardAbiVersion`` of cpp/attention/forward_params.h."""
    header = source / "cpp" / "attention" / "forward_params.h"
    found = _ABI_VERSION.search(header.read_text(encoding="utf-8"))
    if found is None:
        raise AuditError(f"{header}: kForwardAbiVersion is not stated as an integer literal")
    return int(found[1])


def expected_info(variant: Variant, abi: int, dynamic_shared_bytes: int) -> cubin.VariantInfo:
    """What a variant must say of itself; its dynamic shared memory is the kernel's own statement."""
    return cubin.VariantInfo(
        abi_version=abi,
        head_dim=variant.head_dim,
        block_m=variant.block_m,
        block_n=variant.block_n,
        threads=variant.threads,
        dynamic_shared_bytes=dynamic_shared_bytes,
        stages=variant.stages,
        is_bf16=int(variant.dtype == "bf16"),
        tma_columns=variant.tma_columns,
        splits_keys=variant.splits_keys,
    )


def check_kernels(what: str, found: Collection[str], variant: Variant) -> None:
    """Raise AuditError unless the kernels found are exactly the variant's."""
    if sorted(found) != sorted(variant.entry_functions):
        raise AuditError(
            f"{what} {', '.join(found) or 'nothing'}; expected exactly "
            f"{', '.join(variant.entry_functions)}"
        )


def check_advisories(statistics: ptxas.Statistics, allowed: Collection[str]) -> None:
    """Raise AuditError for an advisory of the C75xx family (wgmma serialised, waits injected) not `allowed` by its code."""
    bad = [
        advisory
        for advisory in statistics.advisories
        if advisory.is_serialisation and advisory.code not in allowed
    ]
    if bad:
        said = "; ".join(f"{advisory.code} {advisory.text}" for advisory in bad)
        raise AuditError(f"ptxas advisory: {said}")


def check_spills(usage: ptxas.Usage, allowed_bytes: int) -> None:
    """Raise AuditError when the kernel spills more than ``allowed_bytes`` (stores plus loads, a thread)."""
    spilled = usage.spill_store_bytes + usage.spill_load_bytes
    if spilled > allowed_bytes:
        raise AuditError(
            f"registers of {usage.kernel} spill: {usage.spill_store_bytes} bytes stored and "
            f"{usage.spill_load_bytes} loaded a thread, {allowed_bytes} allowed; give the variant "
            "fewer min_blocks or a smaller tile, or state a [[spill_waivers]] row with a reason in ci/matrix.toml"
        )


def check_images(found: tuple[fatbin.Image, ...], target: Target) -> fatbin.Image:
    """Return the one image of a fatbin; raise AuditError unless it is exactly ``target``.

    cuobjdump prints a 100f cubin as ``sm_100``: for the suffix ``f`` the name is compared without it, and
    :func:`check_origin` compares the rest.
    """
    name = str(target).removesuffix("f")
    if [image.arch for image in found] != [name]:
        listed = ", ".join(image.arch for image in found) or "nothing"
        raise AuditError(f"holds {listed}; exactly one image, {target}, was asked for")
    return found[0]


def check_origin(origin: cubin.Origin, target: Target, virtual: Target, release: str) -> None:
    """Raise AuditError unless a cubin was made for ``target`` from PTX for ``virtual`` by ptxas of ``release``."""
    facts: list[tuple[str, object, object]] = [
        ("SM", origin.machine, target.major * 10 + target.minor),
        ("virtual architecture", origin.virtual_arch, virtual.major * 10 + virtual.minor),
        ("toolkit release", origin.release, release),
    ]
    if origin.requested_arch is not None:
        facts.append(("ptxas -arch", origin.requested_arch, str(target)))
    for what, found, wanted in facts:
        if found != wanted:
            raise AuditError(f"{what} in the cubin is {found}, expected {wanted}")
