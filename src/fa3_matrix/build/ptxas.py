"""What ``ptxas -v`` and its advisories say of a compile."""

import re
from dataclasses import dataclass

_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)' for '(?P<target>[^']+)'")
_FRAME = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<store>\d+) bytes spill stores, (?P<load>\d+) bytes spill loads"
)
_REGISTERS = re.compile(r"Used (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")
_ADVISORY = re.compile(r"\((?P<code>C\d{4})\)\s*(?P<text>.*)")


@dataclass(frozen=True)
class Advisory:
    """One numbered remark of ptxas, such as C7515 (wgmma serialised). ``text`` is the compiler's own."""

    code: str
    text: str

    @property
    def is_serialisation(self) -> bool:
        """Whether it is of the C75xx family: wgmma serialised, waits injected. These cost tens of percent."""
        return self.code.startswith("C75")


@dataclass(frozen=True)
class Usage:
    """Resources of one entry function, in bytes unless said otherwise."""

    kernel: str
    target: str
    registers: int
    barriers: int
    static_shared_bytes: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int


@dataclass(frozen=True)
class Statistics:
    """Everything read from one ``ptxas -v`` log."""

    kernels: tuple[Usage, ...]
    advisories: tuple[Advisory, ...]


def parse(log: str) -> Statistics:
    """Read ``ptxas -v`` output of one or more entry functions.

    Spills and stack frames of functions that ptxas did not inline count for the entry function compiled last before
    them: they run as a part of it.

    Raises:
        ValueError: an entry function has no "Used N registers" line, so that the log is not from ``ptxas -v``.
    """
    kernels: list[Usage] = []
    advisories: dict[Advisory, None] = {}
    name: str | None = None
    target = ""
    frames: list[tuple[int, int, int]] = []
    for line in log.splitlines():
        if found := _ADVISORY.search(line):
            advisories[Advisory(found["code"], found["text"].strip())] = None
        if found := _ENTRY.search(line):
            if name is not None:
                raise ValueError(f"ptxas log: no register count for {name!r}")
            name, target, frames = found["name"], found["target"], []
        elif found := _FRAME.search(line):
            frames.append((int(found["stack"]), int(found["store"]), int(found["load"])))
        elif name is not None and (found := _REGISTERS.search(line)):
            barriers = _BARRIERS.search(line)
            shared = _SHARED.search(line)
            kernels.append(
                Usage(
                    kernel=name,
                    target=target,
                    registers=int(found[1]),
                    barriers=int(barriers[1]) if barriers else 0,
                    static_shared_bytes=int(shared[1]) if shared else 0,
                    stack_bytes=max((frame[0] for frame in frames), default=0),
                    spill_store_bytes=sum(frame[1] for frame in frames),
                    spill_load_bytes=sum(frame[2] for frame in frames),
                )
            )
            name = None
    if name is not None:
        raise ValueError(f"ptxas log: no register count for {name!r}")
    return Statistics(tuple(kernels), tuple(advisories))
