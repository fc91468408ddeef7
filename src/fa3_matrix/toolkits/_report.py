"""What `fa3-matrix toolkits` prints: every toolkit, where it is and what it can do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fa3_matrix.errors import ToolkitError

from ._environment import scrubbed
from ._find import ToolkitRoot, find, provisionable
from ._host_compiler import host_compiler, identify
from ._probe import Probe

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class ToolkitState:
    """One toolkit of the matrix on this machine.

    Attributes:
        version: ``"12.4"``.
        root: None if it is missing; then `problem` says why and what to do.
        probe: None if it is missing.
        host_compiler: Such as ``"g++ 12 (/usr/bin/g++)"``; empty if there is none that it accepts.
        problem: A sentence; empty if all is well.
    """

    version: str
    root: ToolkitRoot | None
    probe: Probe | None
    host_compiler: str
    problem: str

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        data: dict[str, Any] = {"version": self.version, "problem": self.problem}
        if self.root is not None and self.probe is not None:
            data |= {
                "root": str(self.root.root),
                "source": self.root.source,
                "release": self.probe.release,
                "targets": sorted(self.probe.targets),
                "ptx_isa": list(self.probe.ptx_isa),
                "gcc_max": self.probe.gcc_max,
                "clang_max": self.probe.clang_max,
                "compress_mode": self.probe.compress_mode,
                "host_compiler": self.host_compiler,
            }
        return data


def report(
    versions: Sequence[str] | None = None, *, provision: bool = False, verify: bool = False
) -> list[ToolkitState]:
    """Look at each toolkit.

    Args:
        versions: Default: every version that can be provisioned.
        provision: Download the missing ones.
        verify: Compare every provisioned file with the sha256 it was installed with.
    """
    chosen = provisionable() if versions is None else versions
    return [_state(version, provision, verify) for version in chosen]


def table(states: Sequence[ToolkitState]) -> "Table":
    """A rich table of `report`'s states."""
    from rich.markup import escape
    from rich.table import Table

    result = Table(title="CUDA toolkits", caption=_caption() or None, show_lines=True)
    for heading in _HEADINGS:
        result.add_column(heading, overflow="fold")
    for state in states:
        result.add_row(*map(escape, _cells(state)))
    return result


def text(states: Sequence[ToolkitState]) -> str:
    """`report`'s states as plain lines, for where rich is not installed."""
    lines = []
    for state in states:
        lines += [
            f"{heading:>14}: {cell}" for heading, cell in zip(_HEADINGS, _cells(state), strict=True)
        ]
        lines.append("")
    return "\n".join([*lines, _caption()]).rstrip()


_HEADINGS = ("toolkit", "root", "targets", "PTX ISA", "host compiler", "flags")


def _state(version: str, provision: bool, verify: bool) -> ToolkitState:
    try:
        root = find(version, provision=provision)
        probe = root.probe()
    except ToolkitError as error:
        return ToolkitState(version, None, None, "", str(error))
    try:
        path = host_compiler(root)
        family, major = identify(path)
        compiler, problem = f"{family} {major} ({path})", ""
    except ToolkitError as error:
        compiler, problem = "", str(error)
    if verify and (bad := root.damaged()):
        problem = (
            f"{len(bad)} files of {root.root} changed since they were installed, such as {bad[0]}; "
            "delete that folder and run again"
        )
    return ToolkitState(version, root, probe, compiler, problem)


def _cells(state: ToolkitState) -> tuple[str, ...]:
    if state.root is None or state.probe is None:
        return state.version, f"missing: {state.problem}", "", "", "", ""
    probe = state.probe
    where = f"{state.root.root} ({state.root.source})"
    return (
        probe.release,
        f"{where}\n{state.problem}" if state.problem else where,
        " ".join(_shortened(probe)),
        ".".join(map(str, probe.ptx_isa)),
        f"{state.host_compiler or 'none'}; g++ <= {probe.gcc_max}, clang++ <= {probe.clang_max}",
        "--compress-mode" if probe.compress_mode else "no --compress-mode",
    )


def _shortened(probe: Probe) -> list[str]:
    """``sm_90 sm_90a`` as ``sm_90[a]``, in order of capability."""
    suffixes: dict[int, str] = {}
    for target in probe.targets:
        if target.startswith("sm_"):
            number = target.removeprefix("sm_")
            base = int(number.rstrip("af"))
            suffixes[base] = suffixes.get(base, "") + number[len(str(base)) :]
    return [
        f"sm_{base}" + (f"[{''.join(sorted(found))}]" if found else "")
        for base, found in sorted(suffixes.items())
    ]


def _caption() -> str:
    names = scrubbed()
    return f"not passed on to builds: {', '.join(names)}" if names else ""
