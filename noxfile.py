"""The project's sessions; `nox -l` lists them. The logic is in the package: a session installs and calls.

On a machine where the packages are installed already, add `--no-venv`: nothing is installed then, and
the checkout's own sources are used.
"""

import shutil
import sys
from pathlib import Path

import nox

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "src"))

from fa3_matrix import matrix as matrix_model  # noqa: E402  (the checkout's, whatever is installed)

nox.needs_version = ">=2025.5"
nox.options.sessions = ["matrix"]
nox.options.reuse_existing_virtualenvs = True
# Not uv: the toolkits stage downloads by pip, as the machine has it configured.
nox.options.default_venv_backend = "virtualenv"

MATRIX = matrix_model.load(ROOT / "ci" / "matrix.toml")
CUDA_TORCH = "torch>=2.10"
# Pinned: its CPU build is what tests are known to pass with.
TEST_TORCH = "torch==2.13.0"


def install(session: nox.Session, *packages: str, extras: str) -> None:
    """Install the checkout with `extras` and `packages`; with `--no-venv` only put src/ on the path."""
    session.env["PYTHONPATH"] = str(ROOT / "src")
    if session.venv_backend == "none":
        return
    if packages:
        session.install(*packages)
    session.install("-e", f".[{extras}]")


def call(session: nox.Session, module: str, *arguments: str) -> None:
    """Run a module of the package."""
    session.run("python", "-m", f"fa3_matrix.{module}", *arguments)


def judge(session: nox.Session, module: str, *arguments: str) -> None:
    """Run a module whose exit code says why it failed, and end nox with that code in place of its own 1.

    Sessions asked for after this one are not run then.
    """
    try:
        call(session, module, *arguments)
    except nox.command.CommandFailed as error:
        # Releases of nox that do not tell the code leave their 1.
        raise SystemExit(getattr(error, "return_code", None) or 1) from None


@nox.session
def matrix(session: nox.Session) -> None:
    """Provision the toolkits, build, audit and compare all cells, test on a GPU if any, report."""
    has_gpu = shutil.which("nvidia-smi") is not None
    install(session, *([CUDA_TORCH] if has_gpu else []), extras="build,cli,bench,report")
    failed = False
    for command in (
        ["toolkits", "report"],
        ["build.all_cells"],
        ["bench", "smoke"],
        ["report"],
    ):
        # The report comes last and must tell of a failure, so a failed stage doesn't end the session.
        try:
            call(session, *command)
        except nox.command.CommandFailed:
            failed = True
    if failed:
        session.error("a stage failed; the report says which and why")


@nox.session
def toolkits(session: nox.Session) -> None:
    """Find or provision the CUDA toolkits, probe and print them."""
    install(session, extras="build,cli")
    call(session, "toolkits", "report", *session.posargs)


@nox.session
def build(session: nox.Session) -> None:
    """Build and audit all cells and twins and the host library."""
    install(session, extras="build,cli")
    call(session, "build.all_cells", *session.posargs)


def _define_build(cell: str, target: str) -> None:
    @nox.session(name=f"build-{cell}")
    def build_cell(session: nox.Session) -> None:
        install(session, extras="build,cli")
        call(session, "build.all_cells", cell, *session.posargs)

    build_cell.__doc__ = f"Build and audit {cell} ({target})."


@nox.session
def tests(session: nox.Session) -> None:
    """Run everything that can be tested on this machine; arguments go to pytest."""
    install(session, TEST_TORCH, extras="test")
    session.run("python", "-m", "pytest", *session.posargs)


def _define_gpu_sessions(gpu: str, products: str) -> None:
    @nox.session(name=f"correctness-{gpu}")
    def correctness(session: nox.Session) -> None:
        install(session, CUDA_TORCH, extras="bench")
        call(session, "bench", "correctness", "--gpu", gpu, *session.posargs)

    @nox.session(name=f"bench-{gpu}")
    def bench(session: nox.Session) -> None:
        install(session, CUDA_TORCH, extras="bench")
        call(session, "bench", "run", "--gpu", gpu, *session.posargs)

    @nox.session(name=f"profile-{gpu}")
    def profile(session: nox.Session) -> None:
        install(session, CUDA_TORCH, extras="bench")
        call(session, "bench", "profile", "--gpu", gpu, *session.posargs)

    correctness.__doc__ = f"On {products}: hold every cell it loads against fp32 references."
    bench.__doc__ = (
        f"On {products}: time every cell it loads (-- --suite headline --arms cu124,cu133 --peers)."
    )
    profile.__doc__ = f"On {products}: hardware counters of its builds by Nsight Compute: -- --problems 6 --arms A,B."


def _define_wheel(arch: str) -> None:
    @nox.session(name=f"wheel-{arch}")
    def wheel(session: nox.Session) -> None:
        install(session, extras="wheel")
        call(session, "build.wheel", arch, *session.posargs)

    wheel.__doc__ = (
        f"Build {arch}'s wheel and prove it fit to ship (toolkit 13.3, or -- --toolkit 12.4)."
    )


for _cell in (*MATRIX.cells, *MATRIX.twins):
    _define_build(_cell.name, str(_cell.target))
for _gpu in MATRIX.gpus:
    _define_gpu_sessions(_gpu.name, " or ".join(_gpu.products))
for _arch in MATRIX.archs:
    _define_wheel(_arch.name)


@nox.session
def compare(session: nox.Session) -> None:
    """Time two builds side by side: -- A B, each a cell, a build folder, a wheel, or a git revision with --cell."""
    install(session, CUDA_TORCH, extras="build,bench,gate")
    call(session, "gate", "compare", *session.posargs)


@nox.session
def gate(session: nox.Session) -> None:
    """Judge head's times against base's on this GPU: -- --base origin/main. Exit codes: docs/gate.md."""
    install(session, CUDA_TORCH, extras="build,bench,gate")
    judge(session, "gate", "run", *session.posargs)


@nox.session(name="static-gate")
def static_gate(session: nox.Session) -> None:
    """Judge head's builds against base's without a GPU: spills, occupancy, size, build time."""
    install(session, extras="build,gate")
    judge(session, "gate", "static", *session.posargs)


@nox.session
def migrate(session: nox.Session) -> None:
    """Scan this tree for what breaks from CUDA 12.4 to 13.3; build/results/migrate.sarif, .md and .json."""
    install(session, extras="cli,migrate")
    # Build results are no sources, and what knows of breaks or tests it holds nothing else.
    excluded = ("build", "dist", "tests", "src/fa3_matrix/migrate", "docs")
    call(
        session,
        *("cli", "migrate", "."),
        *(f"--exclude={folder}" for folder in excluded),
        *(f"--output=build/results/migrate.{suffix}" for suffix in ("sarif", "md", "json")),
        *session.posargs,
    )


@nox.session(name="migrate-probes")
def migrate_probes(session: nox.Session) -> None:
    """Compile the behaviour probes with both toolkits and run them here; build/results/behaviour.json."""
    install(session, extras="build")
    call(session, "migrate.probes", "build", "build/probes")
    call(
        session, "migrate.probes", "run", "build/probes", "--output", "build/results/behaviour.json"
    )


@nox.session
def report(session: nox.Session) -> None:
    """Write build/report from what has been built and run so far."""
    install(session, extras="build,cli,report,history")
    call(session, "report", *session.posargs)


@nox.session
def generate(session: nox.Session) -> None:
    """Write what is derived from ci/matrix.toml; -- --check only says whether it has drifted."""
    install(session, extras="build,cli")
    call(session, "cli", "generate", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check format, style, types and that generated files are current; -- --fix mends what it can."""
    install(session, extras="lint")
    fix = "--fix" in session.posargs
    sources = [
        str(path.relative_to(ROOT))
        for folder in ("cpp", "tests/cpp", "src/fa3_matrix/migrate/probes")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".h", ".cuh", ".cpp", ".cu")
    ]
    session.run("ruff", "format", *([] if fix else ["--check"]))
    session.run("ruff", "check", *(["--fix"] if fix else []))
    session.run("mypy")
    session.run("clang-format", *(["-i"] if fix else ["--dry-run", "-Werror"]), *sources)
    session.run("gersemi", "-i" if fix else "--check", "CMakeLists.txt", "cmake")
    session.run(
        "check-jsonschema", "--builtin-schema", "vendor.github-workflows", "ci/workflows/github.yml"
    )
    call(session, "cli", "generate", *([] if fix else ["--check"]))
