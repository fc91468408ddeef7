"""A source tree like the product's with tiny kernels, and compiles outside CMake for what must be refused."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fa3_matrix import matrix, toolkits
from fa3_matrix.build import audit
from fa3_matrix.build.manifest import Manifest
from fa3_matrix.matrix import Cell, Twin, Variant
from fa3_matrix.matrix.presets import presets

from ..kernel_source import expand

REPOSITORY = Path(__file__).resolve().parents[2]
KERNELS = Path(__file__).with_name("kernels")

_ARCHS = ["sm80", "sm90", "sm100"]


def _row(archs: list[str], head_dim: int, layouts: list[str], kernel: str) -> str:
    return f"""
[[variants]]
archs = {archs}
dtypes = ["bf16", "fp16"]
head_dim = [{head_dim}]
serves = [{{ layouts = {layouts} }}]
{kernel}"""


def _portable(archs: list[str], head_dim: int, *layouts: str) -> str:
    """The smallest rows of the portable kernel and, for pages, of the one that splits keys."""
    kernel = """\
kernel = "sm80"
block_m = 16
block_n = 16
warps = 1
stages = 1
q_in_registers = false
min_blocks = 1
reason = "the smallest"
"""
    splitkv = """\
kernel = "splitkv"
block_m = 16
block_n = 32
row_warps = 1
key_groups = 2
stages = 1
min_blocks = 1
reason = "pages"
"""
    rows = (list(layouts), kernel), (["paged", "paged_aligned"], splitkv)
    return "".join(_row(archs, head_dim, served, text) for served, text in rows)


# The fewest variants that serve every problem class.
_VARIANTS = _portable(_ARCHS, 16, "aligned", "unaligned")

# The same, with a kernel of Hopper's on sm90 where TMA can load.
_HOPPER_VARIANTS = (
    _portable(["sm80", "sm100"], 16, "aligned", "unaligned")
    + _portable(["sm90"], 32, "unaligned")
    + _row(
        ["sm90"],
        32,
        ["aligned"],
        """\
kernel = "sm90"
block_m = 128
block_n = 64
stages = 2
stages_v = 2
stages_q = 2
ping_pong = true
reason = "by TMA"
""",
    )
)


class Tree:
    """A source tree whose kernels are those of tests/build/kernels, compiled by the product's CMake and Python."""

    def __init__(self, root: Path, extra_matrix: str = "", variants: str = _VARIANTS) -> None:
        self.root = root
        (root / "ci").mkdir(parents=True)
        (root / "cpp").mkdir()
        shutil.copyfile(REPOSITORY / "CMakeLists.txt", root / "CMakeLists.txt")
        for name in ("cmake", "src", "cpp/attention"):
            (root / name).symlink_to(REPOSITORY / name)
        text = (REPOSITORY / "ci" / "matrix.toml").read_text(encoding="utf-8")
        before, _, rest = text.partition("\n[[variants]]")
        suites = rest[rest.index("\n[suites.") :]
        text = before + variants + extra_matrix + suites
        (root / "ci" / "matrix.toml").write_text(text, encoding="utf-8")
        self.matrix = matrix.load(root / "ci" / "matrix.toml")
        (root / "CMakePresets.json").write_text(presets(self.matrix), encoding="utf-8")
        for kernel, source in (("sm80", "forward"), ("splitkv", "splitkv")):
            self.add(kernel, source)
        self.use("plain")

    def add(self, kernel: str, source: str) -> None:
        """Add a folder of cpp/ with one of tests/build/kernels."""
        folder = self.root / "cpp" / kernel
        folder.mkdir()
        shutil.copyfile(KERNELS / f"{source}.cu.in", folder / "forward.cu.in")

    def use(self, kernel: str) -> None:
        """Choose the portable kernel's body."""
        shutil.copyfile(KERNELS / f"{kernel}.cuh", self.root / "cpp" / "sm80" / "body.cuh")

    def compile(
        self,
        cell_name: str,
        *options: str,
        gencode: list[str] | None = None,
        template: str | None = None,
    ) -> dict[str, Path]:
        """Compile a cell's variants through the launcher; ``options`` are added, ``gencode`` replaces.

        ``template`` is taken in place of the portable kernel's.
        """
        cell = self.matrix.cell(cell_name)
        (self.root / "direct").mkdir(exist_ok=True)
        with ThreadPoolExecutor(2) as pool:
            variants = self.matrix.variants(cell.arch.name)
            paths = pool.map(lambda v: self._compile(cell, v, options, gencode, template), variants)
            return {variant.name: path for variant, path in zip(variants, paths, strict=True)}

    def _compile(
        self,
        cell: Cell | Twin,
        variant: Variant,
        options: tuple[str, ...],
        gencode: list[str] | None,
        template: str | None,
    ) -> Path:
        source = self.root / "cpp" / variant.kernel / "forward.cu.in"
        text = source.read_text(encoding="utf-8")
        if template and variant.kernel == "sm80":
            text = template
        folder = self.root / "direct"
        source, fatbin = folder / f"{variant.name}.cu", folder / f"{variant.name}.fatbin"
        source.write_text(expand(text, variant), encoding="utf-8")
        launcher = [sys.executable, REPOSITORY / "src/fa3_matrix/build/compile_log.py", "--"]
        command = [
            *launcher,
            toolkits.find(cell.toolkit.version).nvcc,
            *(f"-I{self.root / 'cpp'}", "-std=c++17"),
            *(f"--generate-code={code}" for code in gencode or [cell.gencode]),
            *("-O3", "-lineinfo", "--no-compress", "-Xptxas=-v", *options),
            *("-x", "cu", "-fatbin", source, "-o", fatbin),
        ]
        subprocess.run(command, check=True)
        return fatbin

    def audit(self, cell_name: str, objects: dict[str, Path]) -> Manifest:
        """Audit what ``compile`` made, as the build step would."""
        cell = self.matrix.cell(cell_name)
        return audit.run(
            self.matrix,
            cell,
            objects,
            output=self.root / "audited",
            binary=self.root / "direct",
            nvcc_release=f"{cell.toolkit.version}.0",
            package_version=None,
        )


@pytest.fixture
def make_tree(tmp_path: Path) -> Callable[..., Tree]:
    """A function that makes a source tree; its argument is added to the matrix."""

    def make(extra_matrix: str = "") -> Tree:
        return Tree(tmp_path / "tree", extra_matrix)

    return make


@pytest.fixture
def hopper_tree(tmp_path: Path) -> Tree:
    """A source tree with a second kernel, for the tensors that TMA can describe on sm90."""
    tree = Tree(tmp_path / "tree", variants=_HOPPER_VARIANTS)
    tree.add("sm90", "hopper")
    return tree


@pytest.fixture
def tree(make_tree: Callable[..., Tree]) -> Tree:
    """A source tree with the plain kernel."""
    return make_tree()


@pytest.fixture(scope="session")
def repository() -> Path:
    """The product's own source tree."""
    return REPOSITORY
