"""What a difference makes the scanner look for, by the words of source code."""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from fa3_matrix.migrate.difference import Change, Difference

# Kinds of changes whose names stand in code as identifiers.
_IDENTIFIERS = frozenset(
    (
        *("function", "field", "type", "enumerator", "macro", "behaviour"),
        *("cccl", "cccl-template", "cccl-internal"),
    )
)
_NAME = re.compile(r"[A-Za-z_]\w*(?:::~?[A-Za-z_]\w*)*")
_SEPARATORS = bytes(
    byte if (chr(byte).isalnum() and byte < 128) or byte in b"_" else 0x20 for byte in range(256)
)
# Roots of qualified names: a file that has none of them can only use them through another file's `using`.
_ROOTS = frozenset(("cub", "thrust", "cuda", "nv"))


@dataclass(frozen=True)
class Index:
    """Changes by the last word of their names, and by what else they are told by.

    Args:
        names: word -> changes of identifiers.
        records: structs that have lost fields.
        headers: path -> changes of headers; ``prefixes``: ("thrust/", change) of whole folders that moved.
        libraries: file name -> change; architectures: "sm_70" -> change.
        kernels: the changes about the linkage of kernels.
        words: what a file must hold one of to be read at all.
    """

    difference: Difference
    names: Mapping[str, tuple[Change, ...]]
    records: frozenset[str]
    headers: Mapping[str, tuple[Change, ...]]
    prefixes: tuple[tuple[str, Change], ...]
    libraries: Mapping[str, Change]
    architectures: Mapping[str, Change]
    kernels: tuple[Change, ...]
    words: frozenset[bytes]

    def concerns(self, words: set[bytes]) -> bool:
        """Whether a file of these words may hold a finding, includes apart."""
        if self.kernels and {b"__global__", b"template"} <= words:
            return True
        found = words & self.words
        names = [word.decode() for word in found]
        return any(
            word not in self.names or any(_rooted(change, words) for change in self.names[word])
            for word in names
        )

    def is_header(self, header: str) -> bool:
        """Whether something became of a header, as it is included."""
        return header in self.headers or header.startswith(tuple(p for p, _ in self.prefixes))


def words_of(data: bytes) -> set[bytes]:
    """All identifiers and numbers of a file."""
    return set(data.translate(_SEPARATORS).split())


def _rooted(change: Change, words: set[bytes]) -> bool:
    head, separator, _ = change.name.partition("::")
    if head == "std":  # lost with headers of these
        return not words.isdisjoint((b"thrust", b"cub"))
    return not separator or head not in _ROOTS or head.encode() in words


_last: tuple[Difference, Index] | None = None


def index_of(difference: Difference) -> Index:
    """The index of ``difference``; that of the last one is kept, since hashing one costs more than a file."""
    global _last
    if _last is None or _last[0] is not difference:
        _last = (difference, _build(difference))
    return _last[1]


def _build(difference: Difference) -> Index:
    names: dict[str, list[Change]] = defaultdict(list)
    headers: dict[str, list[Change]] = defaultdict(list)
    prefixes: list[tuple[str, Change]] = []
    libraries: dict[str, Change] = {}
    architectures: dict[str, Change] = {}
    kernels: list[Change] = []
    for change in difference.changes:
        if change.rule in ("LINK-STUB", "LINK-HIDDEN"):
            kernels.append(change)
        elif change.kind == "header":
            folder = change.name.rstrip("*")
            if folder.endswith("/"):
                prefixes.append((folder, change))
            headers[change.name].append(change)
        elif change.rule == "SONAME" and change.kind == "library":
            libraries[change.name] = change
        elif change.rule == "ARCH-REMOVED":
            architectures[change.name] = change
        elif change.rule == "ABI-LAYOUT":
            continue  # source code is compiled anew; where objects of both meet, it does not show
        elif change.kind in _IDENTIFIERS and _NAME.fullmatch(change.name):
            names[change.name.rpartition("::")[2]].append(change)
    records = frozenset(c.name.rpartition("::")[0] for c in difference.changes if c.kind == "field")
    words = {*names, *records}
    words |= {re.split(r"\W", name)[0] for name in libraries}
    words |= {
        f"{kind}_{name.removeprefix('sm_')}" for name in architectures for kind in ("sm", "compute")
    }
    return Index(
        difference,
        {word: tuple(changes) for word, changes in names.items()},
        records,
        {name: tuple(changes) for name, changes in headers.items()},
        tuple(prefixes),
        libraries,
        architectures,
        tuple(kernels),
        frozenset(word.encode() for word in words if word),
    )
