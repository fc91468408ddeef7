"""The audit: proves that each fatbin holds exactly what its cell asks for, and describes it in ``manifest.json``.

It runs as a step of the CMake build, so that a wheel is audited by the same means as a developer's build.
"""

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fa3_matrix import toolkits
from fa3_matrix.build import checks, compile_log, cubin, fatbin, flags, git, ptxas, sass
from fa3_matrix.build.jobs import cores
from fa3_matrix.build.manifest import (
    AssemblyRecord,
    Manifest,
    OccupancyRecord,
    SassRecord,
    ServesRecord,
    ToolkitRecord,
    VariantRecord,
)
from fa3_matrix.build.occupancy import limits, occupancy
from fa3_matrix.errors import AuditError
from fa3_matrix.matrix import Cell, Matrix, Target, Twin, Variant

_TOOL_RELEASE = re.compile(r"\bV(\d+\.\d+\.\d+)")
_PTX_TARGET = re.compile(r"^\.target\s+(sm_\w+)", re.MULTILINE)
_PTX_ISA = re.compile(r"^\.version\s+(\d+\.\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Places:
    """Folders of one build: source tree, CMake's binary tree, and the toolkit root."""

    source: Path
    binary: Path
    toolkit: Path


@dataclass(frozen=True)
class Compiled:
    """One compile: its fatbin and the launcher's record."""

    path: Path
    command: list[str]
    started: float
    seconds: float
    peak_bytes: int
    stderr: str

    @classmethod
    def load(cls, path: Path) -> "Compiled":
        """Read an object's log.

        Raises:
            AuditError: the object or its log is missing.
        """
        log = compile_log.log_path(path)
        if not path.is_file():
            raise AuditError(f"{path} was not built")
        try:
            record: dict[str, Any] = json.loads(log.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise AuditError(
                f"{log}: no compile log ({error}); delete {path} and build again"
            ) from error
        return cls(
            path=path,
            command=record["command"],
            started=record["started"],
            seconds=record["seconds"],
            peak_bytes=record["peak_bytes"],
            stderr=record["stderr"],
        )


class Auditor:
    """Audits the variants of one cell.

    Args:
        matrix: the matrix; its spill waivers apply.
        cell: the cell or twin.
        places: the build's folders.
    """

    def __init__(self, matrix: Matrix, cell: Cell | Twin, places: Places) -> None:
        self._matrix = matrix
        self._cell = cell
        self._places = places
        self._tools = toolkits.inspection()
        self.abi = checks.abi_version(places.source)

    @cached_property
    def assembler(self) -> str:
        """Release of the ptxas that proves a PTX cell: ``13.3.73``."""
        done = subprocess.run(
            [self._tools.ptxas, "--version"], capture_output=True, text=True, check=False
        )
        found = _TOOL_RELEASE.search(done.stdout)
        if found is None:
            raise AuditError(f"{self._tools.ptxas} --version names no release: {done.stdout!r}")
        return found[1]

    def variant(self, variant: Variant, compiled: Compiled) -> VariantRecord:
        """Audit one variant.

        Raises:
            AuditError: the first thing that is not as asked, without the variant's name.
        """
        flags.check(compiled.command, self._cell.gencode)
        with tempfile.TemporaryDirectory(prefix="fa3-audit-") as name:
            folder = Path(name)
            image = checks.check_images(
                fatbin.images(self._tools.cuobjdump, compiled.path), self._cell.target
            )
            extracted = fatbin.extract(self._tools.cuobjdump, compiled.path, image, folder)
            if self._cell.assemble is not None:
                log, code, target = self._assemble(extracted, self._cell.assemble, folder)
            else:
                log, code, target = compiled.stderr, extracted, self._cell.target
            usage, advisories = self._statistics(variant, log)
            contents = self._contents(variant, code, target)
            listing = sass.read(self._tools.nvdisasm, code, variant.name)
        info = contents.variants[variant.name]
        if contents.barriers:
            usage = replace(usage, barriers=contents.barriers[variant.name])
        fit = self._occupancy(target, info, usage)
        spilled = usage.spill_store_bytes + usage.spill_load_bytes
        return VariantRecord(
            name=variant.name,
            file=f"{variant.name}.fatbin",
            sha256=hashlib.sha256(compiled.path.read_bytes()).hexdigest(),
            bytes=compiled.path.stat().st_size,
            images=[str(self._cell.target)],
            op="fwd",
            kernel=variant.kernel,
            dtype=variant.dtype,
            head_dim=variant.head_dim,
            block_m=variant.block_m,
            block_n=variant.block_n,
            stages=variant.stages,
            threads=info.threads,
            tma_columns=info.tma_columns,
            splits_keys=info.splits_keys,
            dynamic_shared_bytes=info.dynamic_shared_bytes,
            static_shared_bytes=usage.static_shared_bytes,
            registers=usage.registers,
            barriers=usage.barriers,
            spill_store_bytes=usage.spill_store_bytes,
            spill_load_bytes=usage.spill_load_bytes,
            spill_waiver=self._waiver(variant) if spilled else "",
            stack_bytes=usage.stack_bytes,
            occupancy=fit,
            sass=SassRecord(len(listing.instructions), listing.opcodes, listing.sha256),
            compile_seconds=round(compiled.seconds, 3),
            peak_compiler_bytes=compiled.peak_bytes,
            advisories=[f"{advisory.code} {advisory.text}" for advisory in advisories],
            serves=[ServesRecord(**serves.as_json()) for serves in variant.serves],
            candidate=variant.candidate,
        )

    def _statistics(
        self, variant: Variant, log: str
    ) -> tuple[ptxas.Usage, tuple[ptxas.Advisory, ...]]:
        try:
            statistics = ptxas.parse(log)
        except ValueError as error:
            raise AuditError(str(error)) from error
        compiled = {usage.kernel: usage for usage in statistics.kernels}
        checks.check_kernels("ptxas compiled", [*compiled], variant)
        checks.check_advisories(
            statistics, self._matrix.waived_advisories(self._cell.name, variant.name)
        )
        for name, usage in compiled.items():
            checks.check_spills(usage, self._waived_bytes(variant, name))
        return compiled[variant.name], statistics.advisories

    def _waived_bytes(self, variant: Variant, kernel: str) -> int:
        """A waiver is the variant's own kernel's; what goes with it has no reason to spill."""
        if kernel != variant.name:
            return 0
        return self._matrix.waived_spill_bytes(self._cell.name, variant.name)

    def _contents(self, variant: Variant, code: Path, target: Target) -> cubin.Cubin:
        contents = cubin.read(code)
        if self._cell.assemble is not None:
            virtual, release = self._cell.target, self.assembler.rsplit(".", 1)[0]
        else:
            virtual = self._cell.of.target if isinstance(self._cell, Twin) else self._cell.target
            release = self._cell.toolkit.version
        checks.check_origin(contents.origin, target, virtual, release)
        checks.check_kernels("entry functions are", contents.kernels, variant)
        if set(contents.variants) != {variant.name}:
            raise AuditError(
                f"the cubin has no {variant.name}_info object (found: {sorted(contents.variants)})"
            )
        info = contents.variants[variant.name]
        wanted = checks.expected_info(variant, self.abi, info.dynamic_shared_bytes)
        if info != wanted:
            raise AuditError(f"the kernel says {info}, ci/matrix.toml and the headers say {wanted}")
        return contents

    def _occupancy(
        self, target: Target, info: cubin.VariantInfo, usage: ptxas.Usage
    ) -> OccupancyRecord:
        capability = (target.major, target.minor)
        shared = info.dynamic_shared_bytes + usage.static_shared_bytes
        fit = occupancy(
            capability,
            threads=info.threads,
            registers=usage.registers,
            shared_bytes=shared,
            barriers=usage.barriers,
        )
        if fit.ctas_per_sm == 0:
            most = limits(capability).shared_bytes_per_cta
            raise AuditError(
                f"cannot be launched on {target} (limit: {fit.limit}): {info.threads} threads, "
                f"{usage.registers} registers, {shared} bytes of shared memory (at most {most})"
            )
        return OccupancyRecord(fit.ctas_per_sm, fit.warps_per_sm, fit.limit)

    def _assemble(self, ptx: Path, target: Target, folder: Path) -> tuple[str, Path, Target]:
        """Assemble a PTX cell's image; returns ptxas' log, the cubin and its target."""
        text = ptx.read_text(encoding="utf-8", errors="replace")
        arch, isa = _PTX_TARGET.search(text), _PTX_ISA.search(text)
        toolkit = self._cell.toolkit
        wanted = (self._cell.target.code, toolkit.ptx_isa)
        found = (arch[1] if arch else None, isa[1] if isa else None)
        if found != wanted:
            raise AuditError(f"PTX is for (target, ISA) {found}, expected {wanted}")
        out = folder / "assembled.cubin"
        done = subprocess.run(
            [self._tools.ptxas, f"-arch={target}", "-v", "-o", out, ptx],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            raise AuditError(f"ptxas -arch={target} refuses this PTX: {done.stderr.strip()}")
        return done.stderr, out, target

    def _waiver(self, variant: Variant) -> str:
        covering = [
            w for w in self._matrix.spill_waivers if w.covers(self._cell.name, variant.name)
        ]
        return max(covering, key=lambda waiver: waiver.max_bytes).reason


def busy_seconds(compiles: list[Compiled]) -> float:
    """Wall time during which at least one of the compiles ran."""
    total, end = 0.0, float("-inf")
    for start, stop in sorted((c.started, c.started + c.seconds) for c in compiles):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


def run(
    matrix: Matrix,
    cell: Cell | Twin,
    objects: dict[str, Path],
    *,
    output: Path,
    binary: Path,
    nvcc_release: str,
    package_version: str | None,
) -> Manifest:
    """Audit a cell's objects and lay the build down in ``output``.

    Args:
        objects: compiled fatbin of each variant, by variant name.
        output: the build folder to (re)make.
        binary: CMake's binary folder, hidden from recorded flags.
        nvcc_release: full version of the compiler, such as ``12.4.131``.
        package_version: version of the wheel being built, None outside one.

    Raises:
        AuditError: one message with every variant that failed and why; ``output`` then holds no manifest.
    """
    variants = matrix.variants(cell.arch.name)
    names = [variant.name for variant in variants]
    if sorted(objects) != sorted(names):
        raise AuditError(f"{cell.name}: compiled {sorted(objects)}, the matrix has {sorted(names)}")
    output.mkdir(parents=True, exist_ok=True)
    (output / "manifest.json").unlink(missing_ok=True)
    compiles = {name: Compiled.load(path) for name, path in objects.items()}
    nvcc = Path(compiles[names[0]].command[0])
    places = Places(source=matrix.root, binary=binary, toolkit=nvcc.parent.parent)
    auditor = Auditor(matrix, cell, places)

    def attempt(variant: Variant) -> VariantRecord | str:
        try:
            return auditor.variant(variant, compiles[variant.name])
        except AuditError as error:
            return f"{variant.name}: {error}"

    records = _all(attempt, variants, cell.name)
    for stale in output.glob("*.fatbin"):
        if stale.stem not in objects:
            stale.unlink()
    for record in records:
        shutil.copyfile(compiles[record.name].path, output / record.file)
    revision = git.revision(matrix.root)
    lowest, highest = cell.target.capability_range()
    manifest = Manifest(
        cell=cell.name,
        arch=cell.arch.name,
        twin_of=cell.twin_of,
        target=str(cell.target),
        form=cell.target.form,
        forward_abi=auditor.abi,
        capability_range=[list(lowest), list(highest)],
        toolkit=ToolkitRecord(cell.toolkit.version, nvcc_release),
        assembled=AssemblyRecord(str(cell.assemble), auditor.assembler) if cell.assemble else None,
        git_revision=revision.commit if revision else None,
        git_dirty=revision.dirty if revision else False,
        package_version=package_version,
        flags=_common_flags(compiles[names[0]], places),
        build_seconds=round(busy_seconds(list(compiles.values())), 3),
        peak_compiler_bytes=max(compiled.peak_bytes for compiled in compiles.values()),
        variants=records,
    )
    manifest.write(output)
    return manifest


def _all(
    attempt: Callable[[Variant], VariantRecord | str], variants: tuple[Variant, ...], cell: str
) -> list[VariantRecord]:
    """Audit all variants, each mostly waiting for a tool's process; raise one error for all that failed."""
    with ThreadPoolExecutor(cores()) as pool:
        results = list(pool.map(attempt, variants))
    failures = [result for result in results if isinstance(result, str)]
    if failures:
        raise AuditError(
            f"{cell}: {len(failures)} of {len(results)} variants failed the audit\n  "
            + "\n  ".join(failures)
        )
    return [result for result in results if isinstance(result, VariantRecord)]


def _common_flags(compiled: Compiled, places: Places) -> list[str]:
    folders = {"source": places.source, "build": places.binary, "toolkit": places.toolkit}
    return flags.normalise(flags.options(compiled.command), folders)
