"""Proof: the translation units that findings touch, given to the compilers of both toolkits.

Nothing that is read is executed. Of a compilation database only the options that steer the preprocessor and the
language are taken, never its compiler; and since nvcc hands its command lines to a shell, a name or option with a
character that means something there is not passed to it at all.
"""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fa3_matrix import toolkits
from fa3_matrix._progress import Progress
from fa3_matrix.errors import Fa3Error
from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.rules import Proof, Severity, State
from fa3_matrix.migrate.scan.tree import Tree
from fa3_matrix.migrate.scan.walk import Listed, walk
from fa3_matrix.toolkits import ToolkitRoot, clean_environment

CUDA_SUFFIXES = (".cu",)
HOST_SUFFIXES = (".cpp", ".cc", ".cxx", ".c++", ".C", ".c")
UNIT_SUFFIXES = CUDA_SUFFIXES + HOST_SUFFIXES

_COMPILED = frozenset(
    (
        *("FN-REMOVED", "FN-SUFFIX", "FN-SIG", "FIELD-REMOVED", "TYPE-REMOVED", "ENUM-REMOVED"),
        *("MACRO-REMOVED", "ALIAS-REMOVED", "HDR-REMOVED", "HDR-MOVED", "INCLUDE-TRANSITIVE"),
        *("CCCL-REMOVED", "CCCL-SIG", "DIALECT", "DEPRECATED"),
    )
)
# Both toolkits compile for it; which one is all the same to the front ends.
_ARCH = "sm_80"
_SECONDS = 600
# A call over several lines: the compiler names the line of the argument, the finding the line of the function.
_LINES_OF_A_CALL = 12
_UNITS_OF_A_HEADER = 2


class ProofError(Fa3Error):
    """The compilation database cannot be read."""


@dataclass(frozen=True)
class Unit:
    """A translation unit: ``file`` relative to the root; ``options`` of its own; ``cuda``: nvcc compiles it."""

    file: str
    options: tuple[str, ...]
    cuda: bool


@dataclass(frozen=True)
class Diagnostic:
    """``places``: where, and where it was instantiated from: (file relative to the root, line)."""

    error: bool
    text: str
    places: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Compiled:
    """What one compiler said; ``trouble``: why it said nothing."""

    diagnostics: tuple[Diagnostic, ...]
    succeeded: bool
    trouble: str | None = None

    @property
    def first_error(self) -> str:
        """For a person."""
        errors = (d.text for d in self.diagnostics if d.error)
        return self.trouble or next(errors, "it failed without an error message")


@dataclass(frozen=True)
class Proved:
    """The findings, proof raised where both compilers bear them out; ``notes``: what else they showed."""

    findings: tuple[Finding, ...]
    notes: tuple[str, ...]


def prove(
    root: Path,
    findings: Sequence[Finding],
    old: ToolkitRoot,
    new: ToolkitRoot,
    *,
    database: Path | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Proved:
    """Compile each unit that has findings, or includes a header that has, with both toolkits.

    Args:
        root: the scanned folder.
        database: compile_commands.json; default: the one in ``root`` or ``root/build``, else options are guessed.
        jobs: compilers at once; default: one a core.

    Raises:
        ProofError: the database is damaged.
        ToolkitError: no host compiler suits a toolkit.
    """
    root = root.resolve()
    database = database or _database(root)
    commands = read_database(database, root) if database else {}
    files = frozenset(item.file for item in walk(root) if isinstance(item, Listed))
    tree = Tree(root, files)
    concerned = [f for f in findings if _provable(f)]
    units, alone = _units(sorted({f.file for f in concerned}), tree, files, commands, old)
    notes = [f"{file}: no translation unit of the tree includes it: not compiled" for file in alone]
    refused = [unit for unit in units if not is_harmless([str(root / unit.file)])]
    notes += [f"{unit.file}: its name means something to a shell: not compiled" for unit in refused]
    units = [unit for unit in units if unit not in refused]

    def both(unit: Unit) -> tuple[Unit, Compiled, Compiled]:
        before = compile_unit(unit, root, old)
        # What the old toolkit refuses proves nothing by being refused by the new one.
        after = compile_unit(unit, root, new) if before.succeeded else before
        return unit, before, after

    outcomes = []
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        for number, outcome in enumerate(pool.map(both, units), 1):
            outcomes.append(outcome)
            if progress:
                progress.update(number, len(units))
    judged, more = _judged(findings, outcomes, root, tree, old, new)
    return Proved(judged, (*notes, *more))


def is_compiled(finding: Finding) -> bool:
    """Whether a compiler's front end says it: the rest shows when linking, loading or running, or in other files."""
    return finding.rule in _COMPILED


def _provable(finding: Finding) -> bool:
    return (
        is_compiled(finding)
        and finding.severity in (Severity.BREAK, Severity.DEPRECATED)
        and finding.state is not State.INACTIVE
        and finding.file.endswith((*UNIT_SUFFIXES, ".h", ".hh", ".hpp", ".hxx", ".cuh", ".inl"))
    )


def _units(
    affected: Sequence[str],
    tree: Tree,
    files: frozenset[str],
    commands: Mapping[str, Unit],
    toolkit: ToolkitRoot,
) -> tuple[list[Unit], list[str]]:
    """The units to compile, and the headers that none of them includes."""
    chosen = [file for file in affected if file.endswith(UNIT_SUFFIXES)]
    alone = []
    candidates = sorted(file for file in files if file.endswith(UNIT_SUFFIXES))
    for header in affected:
        if header in chosen:
            continue
        includers = [file for file in candidates if header in tree.reached(file)]
        # Those that are compiled anyway are enough, if there are any.
        if not includers:
            alone.append(header)
        elif not any(file in chosen for file in includers):
            chosen += includers[:_UNITS_OF_A_HEADER]
    return [commands.get(file) or guessed(file, tree, toolkit) for file in chosen], alone


def guessed(file: str, tree: Tree, toolkit: ToolkitRoot) -> Unit:
    """Where options are not known: by its suffix, with each folder of the tree from which one of its includes is found.

    What the toolkit has needs no folder: another file of the tree may be called ``cuda.h`` as well.
    """
    folders = ["."]
    for current in (file, *sorted(tree.reached(file))):
        for name in tree.header(current).includes:
            target = tree.resolve(current, name)
            if target and target.endswith(f"/{name}") and not (toolkit.include / name).is_file():
                folder = target[: -len(name) - 1]
                if folder not in folders and folder != current.rpartition("/")[0]:
                    folders.append(folder)
    options = [] if file.endswith(".c") else ["-std=c++17"]
    cuda = file.endswith(CUDA_SUFFIXES)
    return Unit(file, (*options, *(f"-I{folder}" for folder in folders)), cuda)


# --- compilation database ----------------------------------------------------------------------------


def _database(root: Path) -> Path | None:
    places = (root / "compile_commands.json", root / "build" / "compile_commands.json")
    return next((path for path in places if path.is_file()), None)


def read_database(path: Path, root: Path) -> dict[str, Unit]:
    """The units of a compilation database that are files of ``root``, by relative name.

    Raises:
        ProofError: it is no list of commands.
    """
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        found = [_command(row, root) for row in rows]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ProofError(
            f"{path}: not a compilation database ({error}); CMake writes one with "
            "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"
        ) from error
    return {unit.file: unit for unit in found if unit}


def _command(row: Mapping[str, object], root: Path) -> Unit | None:
    folder = Path(str(row["directory"]))
    file = (folder / str(row["file"])).resolve()
    if not file.is_relative_to(root):
        return None
    given = row.get("arguments")
    words = list(map(str, given)) if isinstance(given, list) else shlex.split(str(row["command"]))
    cuda = file.suffix in CUDA_SUFFIXES or Path(words[0]).name.startswith("nvcc")
    return Unit(file.relative_to(root).as_posix(), tuple(_options(words[1:], folder)), cuda)


_FOLDERS = ("-I", "-isystem", "-iquote")
_VALUED = (*_FOLDERS, "-D", "-U", "-include", "-std", "--std", "-x")
# Both spellings of nvcc, and OpenMP of the host compiler.
_FLAGS = frozenset(
    f"{dashes}{name}"
    for name in ("expt-relaxed-constexpr", "expt-extended-lambda", "extended-lambda")
    for dashes in ("-", "--")
) | {"-rdc=true", "--relocatable-device-code=true", "-fopenmp"}


def _options(words: Sequence[str], folder: Path) -> Iterator[str]:
    """Those that say what is compiled: macros, folders of headers, the language."""
    rest = iter(words)
    for word in rest:
        if word in _FLAGS:
            yield word
            continue
        option = next(
            (o for o in sorted(_VALUED, key=len, reverse=True) if word.startswith(o)), None
        )
        if option is None:
            continue
        value = word[len(option) :].removeprefix("=") or next(rest, "")
        if option in _FOLDERS:
            path = (folder / value).resolve()
            # The toolkit that is tried brings its own headers.
            if not (path / "cuda_runtime_api.h").exists():
                yield f"-I{path}"
        elif option == "-include":
            yield from ("-include", str((folder / value).resolve()))
        elif option != "-x":
            yield f"{option}={value}" if "std" in option else f"{option}{value}"


# --- compiling ---------------------------------------------------------------------------------------

_HARMLESS = re.compile(r"[\w./+@%,=:~ -]*")


def is_harmless(words: Iterable[str]) -> bool:
    """Whether a shell, to which nvcc hands its command lines, takes the words for what they are."""
    return all(_HARMLESS.fullmatch(word) for word in words)


def compile_unit(
    unit: Unit, root: Path, toolkit: ToolkitRoot, *, seconds: float = _SECONDS
) -> Compiled:
    """Check the syntax and types of a unit with the compiler of a toolkit, for some ``seconds`` at most.

    Front ends alone, of the device and of the host; nothing is left behind.
    """
    host = toolkits.host_compiler(toolkit)
    # Paths of guessed folders count from the root, where the compiler runs.
    options = [o for o in unit.options if not unit.cuda or is_harmless([o])]
    with TemporaryDirectory(prefix="fa3-migrate-") as scratch:
        if unit.cuda:
            flags = [
                "-Xcompiler=-fopenmp" if option == "-fopenmp" else option for option in options
            ]
            command = [
                str(toolkit.nvcc),
                f"-ccbin={host}",
                f"-arch={_ARCH}",
                "-fdevice-syntax-only",
            ]
            # -cuda stops where the host compiler would begin to generate code.
            command += [*flags, "-x", "cu", "-cuda", str(root / unit.file)]
            command += ["-o", f"{scratch}/unit.ii"]
        else:
            command = [host, "-fsyntax-only", *options, "-isystem", str(toolkit.include)]
            command += ["-x", "c"] if unit.file.endswith(".c") else ["-x", "c++"]
            command.append(str(root / unit.file))
        try:
            done = subprocess.run(
                command,
                cwd=root,
                env={**clean_environment(), "LC_ALL": "C", "TMPDIR": scratch},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Compiled((), False, f"it took longer than {seconds} s")
    output = (done.stdout + done.stderr).decode(errors="replace")
    return Compiled(tuple(diagnostics(output, root)), done.returncode == 0)


# gcc, clang: file:3:7: error: ...; nvcc: file(3): error: ... or file(3): error #20: ...
_GCC = re.compile(
    r"(?P<file>[^\s:][^:\n]*):(?P<line>\d+):\d+: (?P<what>(?:fatal )?error|warning): (?P<text>.*)"
)
_EDG = re.compile(
    r"(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?P<what>(?:catastrophic )?error|warning)(?: #[\w-]+)?: (?P<text>.*)"
)
_FROM = re.compile(
    r"at line (?P<line>\d+) of (?P<file>\S+)|^(?P<gcc>[^\s:][^:\n]*):(?P<at>\d+):\d+:\s+required from"
)


def diagnostics(output: str, root: Path) -> Iterator[Diagnostic]:
    """Errors and warnings in what a compiler printed. Files outside of ``root`` keep their absolute names."""
    what: re.Match[str] | None = None
    places: list[tuple[str, int]] = []
    before: list[tuple[str, int]] = []  # gcc states where a template was needed ahead of the error
    for line in output.splitlines():
        match = _GCC.match(line) or _EDG.match(line)
        if match:
            if what:
                yield _diagnostic(what, places)
            what = match
            places = [(_relative(match["file"], root), int(match["line"])), *before]
            before = []
            continue
        for found in _FROM.finditer(line):
            file, number = (
                (found["file"], found["line"]) if found["file"] else (found["gcc"], found["at"])
            )
            place = (_relative(file.strip('"'), root), int(number))
            (before if found["gcc"] else places).append(place)
    if what:
        yield _diagnostic(what, places)


def _diagnostic(match: re.Match[str], places: list[tuple[str, int]]) -> Diagnostic:
    return Diagnostic("error" in match["what"], match[0].strip(), tuple(places))


def _relative(file: str, root: Path) -> str:
    path = (root / file).resolve()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


# --- judging -----------------------------------------------------------------------------------------


def _judged(
    findings: Sequence[Finding],
    outcomes: Sequence[tuple[Unit, Compiled, Compiled]],
    root: Path,
    tree: Tree,
    old: ToolkitRoot,
    new: ToolkitRoot,
) -> tuple[tuple[Finding, ...], list[str]]:
    notes: list[str] = []
    proved: set[Finding] = set()
    tried: set[Finding] = set()
    unproved = 0
    for unit, before, after in outcomes:
        if not before.succeeded:
            notes.append(
                f"{unit.file}: could not be compiled by the old toolkit ({old.version}) either: {before.first_error}"
            )
            continue
        if after.trouble:
            notes.append(f"{unit.file}: CUDA {new.version} said nothing: {after.trouble}")
            continue
        seen = {unit.file, *tree.reached(unit.file)}
        here = [f for f in findings if _provable(f) and f.file in seen]
        for diagnostic in after.diagnostics:
            about = [f for f in here if is_about(diagnostic, f, root)]
            proved.update(about)
            if diagnostic.error and not about:
                notes.append(
                    f"no finding explains this error of CUDA {new.version}: {diagnostic.text}"
                )
        if after.succeeded:
            tried.update(
                f for f in here if f.state is State.ACTIVE and f.severity is Severity.BREAK
            )
    judged = []
    for finding in findings:
        if finding in proved:
            raised = finding.proof is not Proof.LINKED
            judged.append(replace(finding, proof=Proof.COMPILED) if raised else finding)
        elif finding in tried:
            unproved += 1
            judged.append(replace(finding, confidence="low"))
        else:
            judged.append(finding)
    if unproved:
        notes.append(
            f"{unproved} findings are in files that CUDA {new.version} compiled without an error: "
            "their confidence is low"
        )
    failed = sum(not before.succeeded for _, before, _ in outcomes)
    notes.append(
        f"{len(outcomes)} translation units were given to both toolkits, {failed} of them the old one refused; "
        f"{len(proved)} findings are proved by compiling"
    )
    return tuple(judged), notes


def is_about(diagnostic: Diagnostic, finding: Finding, root: Path) -> bool:
    """Whether a message is about a finding: of its line, or of a later line of the same statement."""
    if diagnostic.error != (finding.severity is Severity.BREAK):
        return False
    return any(
        file == finding.file
        and (line == finding.line or _same_statement(root / file, finding.line, line))
        for file, line in diagnostic.places
    )


def _same_statement(path: Path, first: int, last: int) -> bool:
    """Whether no statement ends on the lines from ``first`` up to the one before ``last``.

    Of a call over several lines the compiler names the argument's, a finding the function's.
    """
    if not 0 < last - first <= _LINES_OF_A_CALL:
        return False
    try:
        lines = path.read_bytes().split(b"\n")[first - 1 : last - 1]
    except OSError:
        return False
    return not any(end in line for line in lines for end in (b";", b"{", b"}"))
