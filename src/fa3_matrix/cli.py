"""The ``fa3-matrix`` command: a thin shell over the stages, each imported only when it is asked for."""

import hashlib
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fa3_matrix._extras import needs
from fa3_matrix.errors import Fa3Error


class Exit(IntEnum):
    """What each exit code means; no code means two things."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DRIFTED = 3
    MISSING_EXTRA = 4
    NOT_SERVED = 5


with needs("cli", Exit.MISSING_EXTRA):
    import typer
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table
    from typer.core import TyperGroup

_EXIT_CODES = """\
Exit codes: 0 done; 1 it failed, and the message says why; 2 wrong usage; 3 a generated file has
drifted (`generate --check`); 4 a Python package is missing, and the message says which extra brings
it; 5 no build serves the problem (`explain`). `migrate`: 0 nothing that breaks; 1 breaks were found;
2 it could not be done.
"""

app = typer.Typer(
    help="""\
Build, inspect and compare attention kernels for a matrix of GPU architectures and CUDA toolkits.

A *cell* is an arch compiled by a toolkit, such as `sm90-cu133`; `fa3-matrix cells` lists them. The
usual order is `toolkits`, `build`, `report`. Everything is stated in `ci/matrix.toml`.
""",
    epilog=_EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead.")]
Jobs = Annotated[
    int | None,
    typer.Option(min=1, help="Compilers at once. Default: from cores and free memory."),
]


def _stage(extra: str) -> AbstractContextManager[None]:
    """Around a stage and its imports: a package that is missing ends the command, naming its extra."""
    return needs(extra, Exit.MISSING_EXTRA)


@app.command()
def cells(
    as_json: AsJson = False,
    twins: Annotated[
        bool, typer.Option("--twins", help="List the twins too: they are tested, never shipped.")
    ] = False,
) -> None:
    """List the cells of the matrix.

    With `--json`: one line, a list of objects, fit to be the `include` list of a CI job matrix.
    """
    from fa3_matrix import matrix

    loaded = matrix.load()
    rows = [
        {
            "name": cell.name,
            "arch": cell.arch.name,
            "toolkit": cell.toolkit.version,
            "target": str(cell.target),
            "status": cell.status,
            "gpu": cell.arch.gpu.name,
            "reason": cell.reason,
        }
        for cell in (loaded.buildable if twins else loaded.cells)
    ]
    if as_json:
        print(json.dumps(rows))
        return
    _print_table(["cell", "arch", "toolkit", "target", "status", "GPU", "why"], rows)


@app.command()
def generate(
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing; exit with 3 when a file has drifted."),
    ] = False,
) -> None:
    """Write the files derived from ci/matrix.toml.

    They are CMakePresets.json, docs/support.md, docs/selection.md and the support table of README.md.
    """
    from fa3_matrix import matrix
    from fa3_matrix.matrix import generate as derived

    loaded = matrix.load()
    if not check:
        changed = derived.generate(loaded)
        print("\n".join(f"wrote {path}" for path in changed) or "nothing has changed")
        return
    drifted = derived.drifted(loaded)
    if drifted:
        names = ", ".join(map(str, drifted))
        print(
            f"error: not what ci/matrix.toml says: {names}; run `fa3-matrix generate` and commit",
            file=sys.stderr,
        )
        raise typer.Exit(Exit.DRIFTED)
    print("the generated files are current")


@app.command()
def toolkits(
    versions: Annotated[
        list[str] | None, typer.Argument(help="Such as 12.4. Default: all of the matrix.")
    ] = None,
    no_provision: Annotated[
        bool, typer.Option("--no-provision", help="Look only; download nothing.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare every provisioned file with its sha256.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find the CUDA toolkits, provision what is missing, and show what each can do.

    Looked for in this order: `FA3_CUDA_12_4_ROOT` and the like; `/usr/local/cuda-12.4`; the cache
    (`FA3_CACHE_DIR`), into which a missing one is downloaded, pinned and verified.
    """
    from fa3_matrix import _json, matrix

    with _stage("build"):
        from fa3_matrix import toolkits as stage

        loaded = matrix.load()
        chosen = [
            loaded.toolkit(v).version for v in versions or [t.version for t in loaded.toolkits]
        ]
        states = stage.report(chosen, provision=not no_provision, verify=verify)
    if as_json:
        print(_json.dumps({"toolkits": {s.version: s.as_dict() for s in states}}), end="")
    else:
        _console().print(stage.table(states))
    if any(state.problem for state in states):
        raise typer.Exit(Exit.FAILED)


@app.command()
def build(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CELL]...", help="Cells or twins. Default: all, and the host library."
        ),
    ] = None,
    jobs: Jobs = None,
) -> None:
    """Compile and audit cells; what has not changed is not built again.

    A cell that fails does not stop the others. A build is a folder, `build/cells/<cell>/fa3`.
    """
    with _stage("build"):
        from fa3_matrix.build import all_cells

        failed = all_cells.run(names or (), jobs=jobs)
    if failed:
        print(f"error: failed: {', '.join(failed)}", file=sys.stderr)
        raise typer.Exit(Exit.FAILED)


@app.command()
def report(
    folder: Annotated[Path, typer.Option("--build", help="Folder of the stages' results.")] = Path(
        "build"
    ),
    as_json: AsJson = False,
) -> None:
    """Write build/report (HTML, Markdown, JSON) of what has been built and run, and show it.

    What was not run is shown as not run, with the reason. A failed stage of a cell exits with 1.
    """
    with _stage("cli"):
        from fa3_matrix import report as stage
        from fa3_matrix.report.__main__ import summary
    data = stage.write(folder)
    if as_json:
        print(json.dumps(data))
    else:
        print(summary(data))
        print(f"\nreport: {(folder / 'report' / 'index.html').resolve()}")
    if data["failures"]:
        raise typer.Exit(Exit.FAILED)


@app.command()
def history(
    folder: Annotated[
        Path, typer.Argument(help="Folder of pytest-benchmark's JSON files, one of each run.")
    ] = Path("build/results/raw"),
    previous: Annotated[
        int, typer.Option(min=1, help="Runs before the latest that it is compared with.")
    ] = 10,
    otava: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write series and configuration for Apache Otava there."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what became of each benchmark from run to run.

    A row is the latest run of a benchmark, build and GPU beside the median of the runs before it.
    Runs of different days are no pair: this shows a drift, never a verdict. Files that are not
    pytest-benchmark's are skipped and named.
    """
    with _stage("history"):
        from fa3_matrix.bench import history as stage
    found = stage.read(folder, previous=previous)
    if otava:
        print(f"{stage.write_otava(found, otava)}", file=sys.stderr)
    if as_json:
        print(json.dumps(found.as_json()))
        return
    for path, reason in found.skipped.items():
        print(f"skipped {path}: {reason}", file=sys.stderr)
    rows = [
        {
            "benchmark": series.benchmark,
            "build": series.cell or "",
            "gpu": series.gpu or "",
            "started": series.latest.started,
            "commit": (series.latest.commit or "")[:12] + ("+" if series.latest.dirty else ""),
            "median": f"{series.latest.median_us:.1f}",
            "iqr": f"{series.latest.iqr_us:.1f}",
            "previous": series.previous,
            "before": "" if series.previous_us is None else f"{series.previous_us:.1f}",
            "change": "" if series.change is None else f"{series.change:+.1%}",
        }
        for series in found.series
    ]
    headings = ["benchmark", "build", "GPU", "latest run", "commit", "median us", "IQR us"]
    _print_table([*headings, "runs before", "their median us", "change"], rows)


@app.command()
def explain(
    seqlen_q: Annotated[int, typer.Option(help="Queries; of a varlen call max_seqlen_q.")],
    head_dim: Annotated[int, typer.Option(help="A multiple of 8, at most 256.")],
    seqlen_k: Annotated[int | None, typer.Option(help="Keys. Default: as queries.")] = None,
    group: Annotated[int, typer.Option(help="Query heads that share a K/V head.")] = 1,
    dtype: Annotated[str, typer.Option(help="bf16 or fp16.")] = "bf16",
    causal: Annotated[bool, typer.Option("--causal", help="Causal mask.")] = False,
    window: Annotated[
        tuple[int, int], typer.Option(metavar="LEFT RIGHT", help="Sliding window; -1: no limit.")
    ] = (-1, -1),
    layout: Annotated[
        str,
        typer.Option(
            help="aligned: TMA can describe the tensors; unaligned; paged_aligned; paged. See docs/selection.md."
        ),
    ] = "aligned",
    capability: Annotated[
        str | None,
        typer.Option(help="Compute capability such as 9.0. Default: this machine's GPU."),
    ] = None,
    builds: Annotated[
        list[Path] | None,
        typer.Option("--build", help="A build folder; may be repeated. Default: those in use."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say which cell and variant a call would use, and why every other one is rejected.

    Needs no GPU when `--capability` is given. Exits with 5 when nothing serves the call.
    """
    import fa3_matrix
    from fa3_matrix import _json

    try:
        decision = fa3_matrix.explain(
            seqlen_q=seqlen_q,
            seqlen_k=seqlen_q if seqlen_k is None else seqlen_k,
            head_dim=head_dim,
            dtype=dtype,
            group=group,
            causal=causal,
            window_size=window,
            layout=layout,
            compute_capability=capability,
            builds=builds,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if as_json:
        data = {
            "problem": decision.problem._asdict(),
            "compute_capability": list(decision.compute_capability),
            "cell": decision.cell,
            "variant": decision.variant.name if decision.variant else None,
            "rejected": [
                {"build": r.build, "variant": r.variant, "reason": r.reason}
                for r in decision.rejected
            ],
        }
        print(_json.dumps(data), end="")
    else:
        print(decision)
    if decision.variant is None:
        raise typer.Exit(Exit.NOT_SERVED)


@app.command()
def inspect(
    path: Annotated[
        Path | None,
        typer.Argument(help="A wheel or a build folder. Default: the builds in use."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the manifest of a wheel or a build, and check its fatbins against it.

    Needs neither a GPU nor torch. A fatbin that is missing or altered exits with 1.
    """
    from fa3_matrix import _json

    manifests = list(_manifests(path))
    if not manifests:
        where = path or "the installed package, FA3_BUILD or build/cells"
        raise Fa3Error(f"no build in {where}: a build is a folder or wheel with a manifest.json")
    damaged = [f"{m['cell']}/{name}" for m, read in manifests for name in _damaged(m, read)]
    if as_json:
        print(_json.dumps({"builds": [m for m, _ in manifests], "damaged": damaged}), end="")
    else:
        for manifest, _ in manifests:
            _show(manifest)
    if damaged:
        raise Fa3Error(f"missing or not of the stated sha256: {', '.join(damaged)}; build it again")


_Read = Callable[[str], bytes]


def _manifests(path: Path | None) -> Iterator[tuple[dict[str, Any], _Read]]:
    """Each manifest of a wheel or folder, with a function that reads the files beside it."""
    from fa3_matrix import _json
    from fa3_matrix.ops import builds

    if path is not None and path.suffix == ".whl":
        try:
            wheel = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile) as error:
            raise Fa3Error(f"{path}: not readable as a wheel ({error})") from error
        for name in wheel.namelist():
            folder, _, file = name.rpartition("/")
            if file == builds.MANIFEST and folder.startswith("fa3_matrix/cells/"):
                manifest = _json.parse(wheel.read(name).decode(), f"{path}/{name}")
                yield manifest, _in_wheel(wheel, folder)
        return
    found = builds.available_builds() if path is None else [builds.Build.read(path)]
    for build in found:
        manifest = _json.read(build.path / builds.MANIFEST)
        yield manifest, _in_folder(build.path)


def _in_wheel(wheel: zipfile.ZipFile, folder: str) -> _Read:
    return lambda file: wheel.read(f"{folder}/{file}")


def _in_folder(folder: Path) -> _Read:
    return lambda file: (folder / file).read_bytes()


def _damaged(manifest: dict[str, Any], read: _Read) -> Iterator[str]:
    for variant in manifest["variants"]:
        try:
            content = read(variant["file"])
        except (OSError, KeyError):
            yield variant["file"]
        else:
            if hashlib.sha256(content).hexdigest() != variant["sha256"]:
                yield variant["file"]


def _show(manifest: dict[str, Any]) -> None:
    from fa3_matrix.matrix.target import NEWEST_CAPABILITY, ComputeCapability

    revision = (manifest["git_revision"] or "no git")[:12] + ("+" if manifest["git_dirty"] else "")
    low, high = (ComputeCapability(*c) for c in manifest["capability_range"])
    runs = f"from {low}" if high == NEWEST_CAPABILITY else f"{low} to {high}"
    size = sum(v["bytes"] for v in manifest["variants"])
    print(
        f"{manifest['cell']}: {manifest['target']} by nvcc {manifest['toolkit']['nvcc']}; compute "
        f"capability {low if low == high else runs}; {len(manifest['variants'])} variants, "
        f"{size / 1e6:.1f} MB; revision {revision}"
    )
    _print_table(
        ["variant", "registers", "spill B", "shared B", "CTAs an SM", "SASS", "KB"],
        [
            {
                "variant": v["name"],
                "registers": v["registers"],
                "spills": v["spill_store_bytes"] + v["spill_load_bytes"],
                "shared": v["static_shared_bytes"] + v["dynamic_shared_bytes"],
                "occupancy": f"{v['occupancy']['ctas_per_sm']} ({v['occupancy']['limit']})",
                "sass": v["sass"]["instructions"],
                "bytes": f"{v['bytes'] / 1e3:.0f}",
            }
            for v in manifest["variants"]
        ],
    )


class _ScanByDefault(TyperGroup):
    """``migrate TREE`` scans the tree; only ``diff`` is another command. (A folder of that name: ``./diff``.)"""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args[:1] != ["diff"] and args[:1] != ["scan"]:
            args = ["scan", *args]
        return super().parse_args(ctx, args)


migrate = typer.Typer(
    cls=_ScanByDefault,
    help="Find what breaks in a source tree from one CUDA toolkit to another.",
    rich_markup_mode="markdown",
)
app.add_typer(migrate, name="migrate")


@contextmanager
def _could_not() -> Iterator[None]:
    """Around the stage: what goes wrong is 2, since 1 says that breaks were found."""
    try:
        with _stage("migrate"):
            yield
    except Fa3Error as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(Exit.USAGE) from None


_From = Annotated[
    str, typer.Option("--from", metavar="VERSION", help="The toolkit that it is written for.")
]
_To = Annotated[
    str, typer.Option("--to", metavar="VERSION", help="The toolkit that it is to be built by.")
]


@migrate.command()
def scan(
    tree: Annotated[Path, typer.Argument(help="Folder (or file) to scan.")] = Path("."),
    old: _From = "12.4",
    new: _To = "13.3",
    format: Annotated[
        str, typer.Option(help="text, json, markdown, sarif or html: of what is printed.")
    ] = "text",
    output: Annotated[
        list[Path] | None,
        typer.Option(help="Also write a file: .sarif, .json, .md, .txt or .html. May be repeated."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB",
            help="Leave out a folder or files, such as third_party. May be repeated.",
        ),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="Findings of this file are known: only new ones fail.")
    ] = None,
    write_baseline: Annotated[
        Path | None, typer.Option(help="Write what is found now as the baseline, and exit with 0.")
    ] = None,
    fail_on: Annotated[
        str,
        typer.Option(
            help="break; latent: breaks behind a condition of the project too; deprecated: these, and what is "
            "deprecated or silently means something else."
        ),
    ] = "break",
    fix: Annotated[
        Path | None,
        typer.Option(
            metavar="PATCH",
            help="Write what is mechanical as a patch for `git apply`; -: print it.",
        ),
    ] = None,
    prove: Annotated[
        bool, typer.Option("--prove", help="Compile what is affected with both toolkits.")
    ] = False,
    compile_commands: Annotated[
        Path | None,
        typer.Option(
            help="compile_commands.json for --prove. Default: the tree's, else options are guessed."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Compilers at once, for --prove. Default: one a core."),
    ] = None,
) -> None:
    """Find what breaks in a source tree from one CUDA toolkit to another: where, why, and what to write instead.

    Needs no toolkit, except with `--prove`. `fa3-matrix migrate diff OLD NEW` shows the difference that is looked
    for. A comment `fa3-migrate: ignore[RULE] reason` on a line or above it suppresses a finding.

    Exit codes: 0 nothing that breaks; 1 breaks were found; 2 it could not be done. See docs/migration.md.
    """
    with _could_not():
        from fa3_matrix.migrate import command
        from fa3_matrix.migrate.formats import Format
        from fa3_matrix.migrate.result import FailOn

        options = command.Options(
            old=old,
            new=new,
            format=_chosen(Format, format, "--format"),
            outputs=tuple(output or ()),
            exclude=tuple(exclude or ()),
            baseline=baseline,
            write_baseline=write_baseline,
            fail_on=_chosen(FailOn, fail_on, "--fail-on"),
            fix=fix,
            prove=prove,
            compile_commands=compile_commands,
            jobs=jobs,
        )
        code = command.run(tree, options)
    if code:
        raise typer.Exit(code)


@migrate.command()
def diff(
    old: Annotated[str, typer.Argument(help="Such as 12.4.")],
    new: Annotated[str, typer.Argument(help="Such as 13.3.")],
    rule: Annotated[
        list[str] | None, typer.Option(help="Only this rule, such as FN-SIG. May be repeated.")
    ] = None,
    format: Annotated[str, typer.Option(help="text, json, markdown or html.")] = "text",
    output: Annotated[
        Path | None, typer.Option(help="Write this file instead: .html, .json, .md or .txt.")
    ] = None,
) -> None:
    """Show the difference of two toolkits: what was removed, renamed, changed or deprecated, and since when."""
    with _could_not():
        from fa3_matrix.migrate import command
        from fa3_matrix.migrate.formats import Format

        command.diff(old, new, rule or (), _chosen(Format, format, "--format"), output)


_Choice = TypeVar("_Choice", bound=StrEnum)


def _chosen(choices: type[_Choice], value: str, option: str) -> _Choice:
    try:
        return choices(value)
    except ValueError:
        known = ", ".join(choices)
        raise typer.BadParameter(f"{value!r} is none of {known}", param_hint=option) from None


def _console() -> Console:
    # Piped output is read by grep and people alike: never wrapped at 80 columns.
    return Console() if sys.stdout.isatty() else Console(width=200)


def _print_table(headings: list[str], rows: list[dict[str, Any]]) -> None:
    table = Table(*headings, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(escape(str(value)) for value in row.values()))
    _console().print(table)


def main() -> None:
    """Run the command; a :class:`Fa3Error` becomes a message on standard error and exit code 1."""
    try:
        app(prog_name="fa3-matrix")
    except Fa3Error as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(Exit.FAILED) from None


if __name__ == "__main__":
    main()
