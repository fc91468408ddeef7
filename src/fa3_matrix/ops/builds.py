"""Builds at run time: folders of fatbins with their ``manifest.json``, which exist and which are used."""

import ctypes
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from fa3_matrix import _json
from fa3_matrix.errors import BuildError
from fa3_matrix.matrix.model import LAYOUTS, MASKS, Serves
from fa3_matrix.matrix.target import ComputeCapability, Target
from fa3_matrix.ops import library

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Variant:
    """One compiled kernel, and the sets of problem classes whose union it serves."""

    name: str
    file: Path
    dtype: str
    head_dim: int
    block_m: int
    block_n: int
    threads: int
    dynamic_shared_bytes: int
    tma_columns: int
    splits_keys: int
    serves: tuple[Serves, ...]
    candidate: str  # empty, or why no problem is given to it yet


@dataclass(frozen=True)
class Build:
    """One cell's compiled form, as its manifest states it."""

    path: Path
    cell: str
    arch: str
    target: Target
    toolkit: str
    twin_of: str | None
    forward_abi: int
    capability_range: tuple[ComputeCapability, ComputeCapability]
    variants: tuple[Variant, ...] = field(repr=False)

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Whether a GPU of that compute capability can run this build."""
        low, high = self.capability_range
        return low <= ComputeCapability(*capability) <= high

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Self:
        """Read the build in ``folder``: the folder of the manifest, or a cell's build folder, which holds ``fa3/``.

        Raises:
            BuildError: there is no manifest, or it is not one of this version.
        """
        path = Path(folder).absolute()
        if not (path / MANIFEST).is_file() and (path / "fa3" / MANIFEST).is_file():
            path = path / "fa3"
        if not (path / MANIFEST).is_file():
            raise BuildError(
                f"{path} is not a build: it has no {MANIFEST}; name a folder such as "
                "build/cells/<cell>/fa3"
            )
        manifest = _json.read(path / MANIFEST)
        try:
            low, high = manifest["capability_range"]
            return cls(
                path=path,
                cell=manifest["cell"],
                arch=manifest["arch"],
                target=Target.parse(manifest["target"]),
                toolkit=manifest["toolkit"]["version"],
                twin_of=manifest["twin_of"],
                forward_abi=manifest["forward_abi"],
                capability_range=(ComputeCapability(*low), ComputeCapability(*high)),
                variants=tuple(_variant(path, entry) for entry in manifest["variants"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BuildError(
                f"{path / MANIFEST}: not a manifest of this version ({error!r}); build the cell again"
            ) from error


class HasPath(Protocol):
    """Anything that knows its build folder, such as ``fa3_matrix.build.Build``."""

    @property
    def path(self) -> Path: ...


BuildLike = str | os.PathLike[str] | HasPath


def available_builds() -> tuple[Build, ...]:
    """The builds that calls may use unless :func:`use_build` says otherwise, in order of preference.

    ``FA3_BUILD`` (folders separated by ``os.pathsep``) replaces the packaged ones. Else: those in
    the installed wheel, or in a checkout those under ``build/cells``, twins excluded; native code
    before PTX, newer toolkits first.

    Raises:
        BuildError: a folder of ``FA3_BUILD`` is not a build.
    """
    stated = os.environ.get("FA3_BUILD")
    if stated:
        return tuple(Build.read(folder) for folder in stated.split(os.pathsep) if folder)
    found = [Build.read(file.parent) for file in _manifests()]
    return tuple(sorted((build for build in found if not build.twin_of), key=_preference))


class use_build:
    """Make calls use these builds, in this order of preference, instead of the available ones.

    ``use_build(path)`` holds until the next change; ``with use_build(path):`` restores what was used
    before. ``use_build()`` goes back to :func:`available_builds`. It holds for the whole process and
    is cheap: a build is read once, and each kernel is loaded when it is first launched. A folder
    that was built anew since is read again.

    Raises:
        BuildError: a folder is not a build, or the host library is missing.
    """

    def __init__(self, *builds: BuildLike) -> None:
        self._before = _active.builds
        _active.use(resolve(builds) if builds else None)

    @property
    def builds(self) -> tuple[Build, ...]:
        """The builds in use."""
        return active_builds()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _active.use(self._before)


def active_builds() -> tuple[Build, ...]:
    """The builds in use: those of the last :func:`use_build`, else the available ones."""
    return available_builds() if _active.builds is None else _active.builds


def activate() -> None:
    """Tell the host library which builds are in use, unless it has been told already."""
    if not _active.told:
        _active.use(_active.builds)


class _Active:
    """What the process uses: ``builds`` is None for the available ones, ``told`` whether the host library knows."""

    def __init__(self) -> None:
        self.builds: tuple[Build, ...] | None = None
        self.told = False

    def use(self, builds: tuple[Build, ...] | None) -> None:
        handles = [handle(build) for build in (available_builds() if builds is None else builds)]
        array = (ctypes.c_int32 * len(handles))(*handles)
        library.call("fa3_activate", array, len(handles))
        self.builds, self.told = builds, True


_active = _Active()
# By manifest: the file's identity when it was read, the build, and the library's handle once it has one.
_read: dict[Path, tuple[tuple[int, int], Build]] = {}
_handles: dict[tuple[Path, tuple[int, int]], int] = {}


def handle(build: Build) -> int:
    """The host library's handle of a build."""
    key = (build.path, _identity(build.path))
    if key not in _handles:
        _handles[key] = create(build)
    return _handles[key]


def create(build: Build) -> int:
    """Make a build known to the host library and return its handle; :func:`handle` does so once.

    Raises:
        BuildError: it contradicts itself, or its kernels take other parameters than the host library passes.
    """
    low, high = build.capability_range
    made = library.call(
        "fa3_build_create",
        build.cell.encode(),
        build.forward_abi,
        low.major * 10 + low.minor,
        high.major * 10 + high.minor,
        build.target.form == "ptx",
    )
    for variant in build.variants:
        if variant.candidate:
            continue
        struct = library.VariantStruct(
            name=variant.name.encode(),
            fatbin=os.fsencode(variant.file),
            dtype=library.DTYPE_NUMBERS[variant.dtype],
            head_dim=variant.head_dim,
            block_m=variant.block_m,
            block_n=variant.block_n,
            threads=variant.threads,
            dynamic_shared_bytes=variant.dynamic_shared_bytes,
            tma_columns=variant.tma_columns,
            splits_keys=variant.splits_keys,
        )
        index = library.call("fa3_build_add_variant", made, ctypes.byref(struct))
        for serves in variant.serves:
            classes = library.ServesStruct(
                log2_seqlen_q=serves.log2_seqlen_q,
                log2_seqlen_k=serves.log2_seqlen_k,
                masks=sum(1 << library.MASK_NUMBERS[mask] for mask in serves.masks),
                layouts=sum(1 << library.LAYOUT_NUMBERS[layout] for layout in serves.layouts),
            )
            library.call("fa3_build_add_serves", made, index, ctypes.byref(classes))
    library.call("fa3_build_finish", made)
    return made


def resolve(builds: Iterable[BuildLike]) -> tuple[Build, ...]:
    """Read the builds that a caller named."""
    return tuple(
        _cached(item if isinstance(item, str | os.PathLike) else item.path) for item in builds
    )


def _cached(folder: str | os.PathLike[str]) -> Build:
    path = Path(folder).absolute()
    known = _read.get(path)
    if known and known[0] == _identity(known[1].path):
        return known[1]
    build = Build.read(path)
    _read[path] = (_identity(build.path), build)
    return build


def _identity(folder: Path) -> tuple[int, int]:
    try:
        status = (folder / MANIFEST).stat()
    except FileNotFoundError as error:
        raise BuildError(f"{folder} is no longer a build: its {MANIFEST} is gone") from error
    return status.st_mtime_ns, status.st_ino


def _manifests() -> list[Path]:
    packaged = sorted(library.PACKAGE.glob(f"cells/*/{MANIFEST}"))
    root = library.checkout()
    return packaged if packaged or not root else sorted(root.glob(f"build/cells/*/fa3/{MANIFEST}"))


def _preference(build: Build) -> tuple[bool, list[int], str]:
    newest_first = [-int(part) for part in build.toolkit.split(".")]
    return build.target.form == "ptx", newest_first, build.cell


def _variant(folder: Path, entry: dict[str, Any]) -> Variant:
    name, dtype = entry["name"], entry["dtype"]
    if dtype not in library.DTYPE_NUMBERS:
        raise ValueError(f"variant {name}: dtype {dtype}")
    if not entry["serves"]:
        raise ValueError(f"variant {name}: serves is empty")
    return Variant(
        name=name,
        file=folder / entry["file"],
        dtype=dtype,
        head_dim=entry["head_dim"],
        block_m=entry["block_m"],
        block_n=entry["block_n"],
        threads=entry["threads"],
        dynamic_shared_bytes=entry["dynamic_shared_bytes"],
        tma_columns=entry["tma_columns"],
        splits_keys=entry["splits_keys"],
        serves=tuple(_serves(name, each) for each in entry["serves"]),
        candidate=entry["candidate"],
    )


def _serves(variant: str, entry: dict[str, Any]) -> Serves:
    low_q, high_q = entry["log2_seqlen_q"]
    low_k, high_k = entry["log2_seqlen_k"]
    masks, layouts = entry["masks"], entry["layouts"]
    if not set(masks) <= set(MASKS) or not set(layouts) <= set(LAYOUTS):
        raise ValueError(f"variant {variant}: masks {masks}, layouts {layouts}")
    return Serves((low_q, high_q), (low_k, high_k), tuple(masks), tuple(layouts))
