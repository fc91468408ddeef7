"""A toolkit's files: what its headers are called, and how compilers are told where they are."""

import re
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fa3_matrix.errors import ToolkitError
from fa3_matrix.toolkits import clean_environment

_CCCL_FOLDERS = ("thrust", "cub", "cuda", "nv")
# libdevice's and the compiler's own; and nvPTXCompiler.h belongs to a component that may or may not be installed.
_NOT_PUBLIC = re.compile(r"^crt/|(^|/)details?/|^__init__|^nvPTXCompiler\.h$|/impl/")
# Of CCCL.
_PRIVATE_HEADER = re.compile(r"/(__|detail/|internal/|impl/|specializations/|dispatch/|omp/|tbb/)")


@dataclass(frozen=True)
class Tree:
    """A toolkit root, and roots of components that are shipped apart from it."""

    root: Path
    components: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if not (self.root / "include" / "cuda.h").is_file():
            raise ToolkitError(f"{self.root} is no CUDA toolkit: it has no include/cuda.h")

    @cached_property
    def include(self) -> tuple[Path, ...]:
        """Folders of headers outside CCCL."""
        return tuple(root / "include" for root in (self.root, *self.components))

    @cached_property
    def cccl_folder(self) -> str:
        """Folder of Thrust, CUB and libcu++, relative to the root."""
        return "include/cccl" if (self.root / "include" / "cccl").is_dir() else "include"

    @cached_property
    def host_folders(self) -> tuple[str, ...]:
        """Folders of CCCL that stand beside cuda.h, where a host compiler finds them."""
        return tuple(f for f in _CCCL_FOLDERS if (self.root / "include" / f).is_dir())

    @property
    def has_cccl(self) -> bool:
        """Whether CCCL is there."""
        return (self.root / self.cccl_folder / "thrust" / "version.h").is_file()

    @cached_property
    def cuda(self) -> str:
        """Version: "12.4"."""
        found = re.search(r"#define CUDA_VERSION (\d+)", self.text("cuda.h"))
        if found is None:
            raise ToolkitError(f"{self.root}/include/cuda.h does not define CUDA_VERSION")
        number = int(found.group(1))
        return f"{number // 1000}.{number % 1000 // 10}"

    def text(self, header: str) -> str:
        """Text of a header outside CCCL."""
        for folder in self.include:
            if (folder / header).is_file():
                return (folder / header).read_text(encoding="utf-8", errors="replace")
        raise ToolkitError(f"{self.root} has no include/{header}: the toolkit is incomplete")

    @cached_property
    def headers(self) -> tuple[str, ...]:
        """Public headers outside CCCL."""
        found = {
            str(path.relative_to(folder))
            for folder in self.include
            for path in folder.rglob("*")
            if path.is_file()
            and path.relative_to(folder).parts[0] not in (*_CCCL_FOLDERS, "cccl")
            and path.suffix in (".h", ".hpp")
        }
        return tuple(sorted(header for header in found if not _NOT_PUBLIC.search(header)))

    def has(self, header: str) -> bool:
        """Whether a header outside CCCL is there."""
        return any((folder / header).is_file() for folder in self.include)

    def lacks(self, header: str) -> bool:
        """Whether a header needs one of a component that is not there (the profiler's API)."""
        needed = re.findall(r'#include\s*[<"](cuda\w*\.h)[>"]', self.text(header))
        return not all(self.has(name) for name in needed)

    @cached_property
    def cccl_headers(self) -> tuple[str, ...]:
        """Public headers of CCCL."""
        return tuple(h for h in self._all_cccl_headers if not _PRIVATE_HEADER.search(h))

    @cached_property
    def internal_cccl_headers(self) -> tuple[str, ...]:
        """Those that are not public."""
        return tuple(h for h in self._all_cccl_headers if _PRIVATE_HEADER.search(h))

    @cached_property
    def _all_cccl_headers(self) -> tuple[str, ...]:
        base = self.root / self.cccl_folder
        found = {
            str(path.relative_to(base))
            for folder in _CCCL_FOLDERS
            for path in (base / folder).rglob("*")
            if path.is_file() and path.suffix in ("", ".h", ".cuh")
        }
        return tuple(sorted(found))

    @cached_property
    def libraries(self) -> tuple[Path, ...]:
        """Shared libraries."""
        folders = [
            root / name for root in (self.root, *self.components) for name in ("lib64", "lib")
        ]
        return tuple(sorted(path for folder in folders for path in folder.glob("*.so*")))

    def own_header(self, path: str) -> str | None:
        """How a header outside CCCL is included; None: it is somebody else's."""
        for folder in self.include:
            prefix = f"{folder}/"
            if path.startswith(prefix):
                name = path.removeprefix(prefix)
                return None if name.partition("/")[0] in (*_CCCL_FOLDERS, "cccl") else name
        return None

    def cccl_header(self, path: str) -> str | None:
        """How a header of CCCL is included, a private one too."""
        prefix = f"{self.root / self.cccl_folder}/"
        name = path.removeprefix(prefix)
        known = path.startswith(prefix) and name.partition("/")[0] in _CCCL_FOLDERS
        return name if known else None

    @cached_property
    def arguments(self) -> list[str]:
        """What both GCC and Clang take to see headers as nvcc's host pass does."""
        major, minor = self.cuda.split(".")
        return [
            *("-x", "c++", "-std=c++17", "-D__CUDACC__=1", "-D__NVCC__=1"),
            *(f"-D__CUDACC_VER_MAJOR__={major}", f"-D__CUDACC_VER_MINOR__={minor}"),
            *("-D__CUDACC_VER_BUILD__=0", "-D__NV_NO_HOST_COMPILER_CHECK=1"),
            *(argument for folder in self.include for argument in ("-I", str(folder))),
            *("-isystem", str(self.root / self.cccl_folder)),
            # nvcc does so before the first line of every unit.
            *("-include", "cuda_runtime.h"),
        ]

    @cached_property
    def clang_arguments(self) -> list[str]:
        """`arguments` for libclang, which has no standard library of its own."""
        said = _gcc(["-E", "-v", "-x", "c++", "-"], "").stderr
        listed = said.partition("search starts here:\n#include <...> search starts here:\n")[2]
        listed = listed or said.rpartition("search starts here:\n")[2]
        folders = listed.partition("End of search list")[0].split()
        system = [argument for folder in folders for argument in ("-isystem", folder)]
        return [
            *self.arguments,
            "-nostdinc",
            "-nostdinc++",
            *system,
            "-Wno-everything",
            "-ferror-limit=0",
        ]

    def preprocess(self, source: str, arguments: list[str]) -> str:
        """Text that the preprocessor makes of ``source``."""
        return _gcc(["-E", "-P", *arguments, "-"], source).stdout

    def defined(self, source: str) -> frozenset[str]:
        """Names of the macros that ``source`` leaves defined, as GCC sees it."""
        said = _gcc(["-E", "-dM", *self.arguments, "-"], source).stdout
        return frozenset(re.findall(r"^#define (\w+)", said, re.MULTILINE))

    def closure(self, header: str) -> tuple[str, ...] | None:
        """Headers of CCCL that including a public one reads; None: it needs something that is not there."""
        done = _gcc(["-M", *self.arguments, "-"], f"#include <{header}>\n", check=False)
        if done.returncode != 0:
            return None
        paths = done.stdout.replace("\\\n", " ").split()
        found = {self.cccl_header(path) for path in paths}
        return tuple(sorted(name for name in found if name and name != header))


def _gcc(
    arguments: list[str], source: str, *, check: bool = True
) -> subprocess.CompletedProcess[str]:
    try:
        done = subprocess.run(
            ["g++", *arguments],
            env=clean_environment() | {"LC_ALL": "C"},
            input=source,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise ToolkitError(f"reading headers needs g++: {error.strerror}") from error
    if check and done.returncode != 0:
        raise ToolkitError(f"g++ could not read the headers: {done.stderr[:400]}")
    return done
