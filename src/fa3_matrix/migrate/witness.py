"""Proves a difference by both compilers: what changed, the old one takes and the new one refuses; the rest, both take.

``python -m fa3_matrix.migrate.witness 12.4 13.3`` proves the shipped difference and raises the proof level of what is
confirmed; it lowers none. What was compiled before is not compiled again.
"""

import argparse
import dataclasses
import hashlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from fa3_matrix import _json
from fa3_matrix.errors import Fa3Error, ToolkitError
from fa3_matrix.migrate._tree import Tree
from fa3_matrix.migrate.difference import Difference
from fa3_matrix.migrate.rules import Proof
from fa3_matrix.migrate.witness_units import Key, Unit, units
from fa3_matrix.toolkits import cache_dir, clean_environment, find

_ERROR = re.compile(
    r"^[^\s(:]*witness\.(?:cu|cpp)(?:\((\d+)\)|:(\d+):\d+): (?:fatal )?error", re.MULTILINE
)
_WARNING = re.compile(r"^[^\s(:]*witness\.cpp:(\d+):\d+: warning: .*deprecated", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Disagreement:
    """A compiler said something else than the difference."""

    unit: str
    witness: str
    toolkit: str
    said: str


@dataclasses.dataclass(frozen=True)
class Toolkit:
    """A root with its compiler, and roots of components that are shipped apart."""

    version: str
    root: Path
    components: tuple[Path, ...] = ()

    def absent(self, headers: Iterable[str]) -> frozenset[str]:
        """Those of ``headers`` that it does not have, or that need one that it does not have."""
        tree = Tree(self.root, self.components)
        return frozenset(h for h in headers if not tree.has(h) or tree.lacks(h))

    @property
    def includes(self) -> list[str]:
        """-I of components."""
        return [f"-I{component / 'include'}" for component in self.components]


def compile_unit(unit: Unit, toolkit: Toolkit) -> frozenset[int]:
    """Indices of the witnesses that the toolkit refuses.

    Raises:
        ToolkitError: it refuses what comes before them.
    """
    with TemporaryDirectory() as folder:
        suffix = "cpp" if unit.command.startswith("g++") else "cu"
        path = Path(folder) / f"witness.{suffix}"
        path.write_text(unit.source)
        done = subprocess.run(
            [*_command(unit.command, toolkit), *unit.options, path.name],
            cwd=folder,
            env=clean_environment() | {"LC_ALL": "C"},
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    said = done.stdout + done.stderr
    pattern = _WARNING if unit.command == "g++ -Wdeprecated" else _ERROR
    lines = {int(next(filter(None, match.groups()))) for match in pattern.finditer(said)}
    if unit.command == "nvcc -arch":
        return frozenset({0} if "Unsupported gpu architecture" in said else ())
    refused = unit.refused(lines)
    if -1 in refused or (done.returncode != 0 and not lines):
        errors = [line for line in said.splitlines() if "error" in line]
        raise ToolkitError(
            f"CUDA {toolkit.version} refuses the head of {unit.name}: {(errors or [said])[0][:300]}"
        )
    return frozenset(refused)


def _command(name: str, toolkit: Toolkit) -> list[str]:
    nvcc = [str(toolkit.root / "bin" / "nvcc"), "-std=c++17", *toolkit.includes]
    # An error in what a macro stands for is of the line that uses it.
    host = ["g++", "-std=c++17", "-ftrack-macro-expansion=0", f"-I{toolkit.root / 'include'}"]
    host += toolkit.includes
    return {
        # Stops after the front end where it has an error; that reports no more than 100 if it isn't told.
        "nvcc": [*nvcc, "-arch=sm_90", "-cuda", "-w", "-o", "/dev/null", *_ALL_ERRORS],
        "nvcc -E": [*nvcc, "-arch=sm_90", "-rdc=true", "-E", "-w", "-o", "/dev/null"],
        "nvcc -arch": [*nvcc, "--dryrun", "-cubin"],
        "g++": [*host, "-fsyntax-only", "-w"],
        "g++ -E": [*host, "-E", "-w", "-o", "/dev/null"],
        "g++ -Wdeprecated": [*host, "-fsyntax-only"],
    }[name]


_ALL_ERRORS = ("-Xcudafe", "--error_limit=100000")


def disagreements(
    unit: Unit, toolkit: Toolkit, refused: frozenset[int], *, new: bool
) -> Iterator[Disagreement]:
    """Where a toolkit's word is not the difference's: only the new one may refuse, and only what changed."""
    for index, witness in enumerate(unit.witnesses):
        expected = new and witness.change is not None
        if (index in refused) != expected:
            said = "refuses it" if index in refused else "takes it"
            yield Disagreement(unit.name, witness.text, toolkit.version, said)


@dataclasses.dataclass(frozen=True)
class Proven:
    """What came of compiling units: changes that both compilers confirmed, and what they contradict."""

    changes: frozenset[Key]
    disagreements: tuple[Disagreement, ...]


def prove(units: Sequence[Unit], old: Toolkit, new: Toolkit, *, folder: Path, say: "Say") -> Proven:
    """Compile the units with both toolkits.

    Args:
        folder: keeps what each toolkit refused, so that a second run goes on where the first one stopped.
        say: is told of each unit.
    """
    confirmed: set[Key] = set()
    contradicted: set[Key | None] = set()
    found: list[Disagreement] = []
    for number, unit in enumerate(units, 1):
        say(f"[{number}/{len(units)}] {unit.name}: {len(unit.witnesses)} lines")
        for toolkit in (old, new):
            refused = _kept_or_compiled(unit, toolkit, folder)
            wrong = list(disagreements(unit, toolkit, refused, new=toolkit is new))
            found += wrong
            texts = {one.witness for one in wrong}
            contradicted |= {w.change for w in unit.witnesses if w.text in texts}
        confirmed |= {witness.change for witness in unit.witnesses if witness.change}
    return Proven(frozenset(confirmed - contradicted), tuple(found))


def _kept_or_compiled(unit: Unit, toolkit: Toolkit, folder: Path) -> frozenset[int]:
    asked = repr((_command(unit.command, toolkit), unit.options, unit.source))
    path = folder / f"{hashlib.sha256(asked.encode()).hexdigest()[:32]}.json"
    if path.exists():
        return frozenset(_json.read(path)["refused"])
    refused = compile_unit(unit, toolkit)
    _json.write_atomic(path, {"unit": unit.name, "refused": sorted(refused)})
    return refused


def proved(difference: Difference, changes: frozenset[Key]) -> Difference:
    """``difference`` with the proof level of what both compilers confirmed."""
    return dataclasses.replace(
        difference,
        changes=tuple(
            dataclasses.replace(change, proof=Proof.WITNESS)
            if (change.rule, change.name) in changes and change.proof is Proof.HEADERS
            else change
            for change in difference.changes
        ),
    )


def not_proved_again(difference: Difference, absent: frozenset[str]) -> list[str]:
    """Names of the proved changes whose headers are not at hand: they keep their level as recorded."""
    return sorted(
        {
            change.name
            for change in difference.changes
            if change.where in absent and change.proof not in (Proof.DOCUMENTATION, Proof.HEADERS)
        }
    )


Say = Callable[[str], None]


def main(arguments: list[str] | None = None) -> int:
    """Prove the shipped difference; 0: no disagreement, 1: some, or it could not be done."""
    from fa3_matrix.migrate import store

    parser = argparse.ArgumentParser(
        prog="python -m fa3_matrix.migrate.witness", description=__doc__
    )
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--old-component", type=Path, action="append", default=[])
    parser.add_argument("--new-component", type=Path, action="append", default=[])
    options = parser.parse_args(arguments)
    try:
        difference = store.load_difference(options.old, options.new)
        toolkits = [
            Toolkit(version, find(version).root, tuple(components))
            for version, components in (
                (options.old, options.old_component),
                (options.new, options.new_component),
            )
        ]
        old, new = store.load_model(options.old), store.load_model(options.new)
        absent = toolkits[0].absent(old.headers) | toolkits[1].absent(new.headers)
        if absent:
            print(f"not at hand, and not proved: {', '.join(sorted(absent))}")
        if again := not_proved_again(difference, absent):
            print(f"these keep their proof level as recorded: {', '.join(again)}")
        made = units(difference, old, new, absent)
        proven = prove(made, *toolkits, folder=cache_dir() / "witnesses", say=print)
        store.save_difference(proved(difference, proven.changes))
    except Fa3Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for one in proven.disagreements:
        print(f"CUDA {one.toolkit} {one.said} ({one.unit}): {one.witness}")
    print(f"{len(proven.changes)} changes proved, {len(proven.disagreements)} disagreements")
    return 1 if proven.disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
