"""Scanning many files: in processes where that pays, and so that no file can stop the others."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

from fa3_matrix.errors import Fa3Error
from fa3_matrix.migrate.difference import Difference
from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.scan import cxx, syntax
from fa3_matrix.migrate.scan.index import index_of, words_of
from fa3_matrix.migrate.scan.tree import Tree
from fa3_matrix.migrate.scan.walk import Listed, Skipped, is_binary

# A process starts in 0.3 s, in which one scans some 5 MB.
_WORTH_PROCESSES = 8_000_000
_BATCH = 1_000_000
_HEAD = 4096


@dataclass
class Result:
    """Of one file, of a batch, and of all."""

    findings: list[Finding] = field(default_factory=list)
    analyses: list[cxx.Analysis] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    files: int = 0
    lines: int = 0

    def add(self, other: "Result") -> None:
        """Take in another one."""
        self.findings += other.findings
        self.analyses += other.analyses
        self.skipped += other.skipped
        self.files += other.files
        self.lines += other.lines


def run(
    root: Path,
    files: list[Listed],
    difference: Difference,
    progress: Callable[[int, int], None],
    processes: int | None,
) -> Result:
    """Scan ``files`` of ``root``; see `scan.scan`."""
    total = sum(file.size for file in files)
    names = frozenset(file.file for file in files)
    if processes is None:
        processes = len(os.sched_getaffinity(0)) if total > _WORTH_PROCESSES else 1
    result = Result()
    if any(cxx.accepts(file.file, b"") for file in files):
        syntax.language()  # says what is missing before anything is read
    done = 0
    for size, part in _parts(root, names, files, difference, processes):
        result.add(part)
        done += size
        progress(done, total)
    tree = Tree(root, names)
    result.findings += cxx.settle(result.analyses, index_of(difference), tree)
    result.analyses = []
    return result


def _parts(
    root: Path, names: frozenset[str], files: list[Listed], difference: Difference, processes: int
) -> Iterator[tuple[int, Result]]:
    if processes <= 1:
        worker = _Worker(root, names, difference)
        for file in files:
            yield file.size, worker.file(file)
        return
    arguments = (root, names, difference)
    retried: list[Listed] = []
    with _pool(processes, arguments) as pool:
        futures: dict[Future[Result], list[Listed]] = {
            pool.submit(_batch, batch): batch for batch in _batches(files)
        }
        for future in as_completed(futures):
            batch = futures[future]
            try:
                yield sum(file.size for file in batch), future.result()
            except BrokenProcessPool:
                retried += batch
    for file in retried:
        yield file.size, _alone(file, arguments)


def _alone(file: Listed, arguments: tuple[Path, frozenset[str], Difference]) -> Result:
    """A file whose process may die of it."""
    with _pool(1, arguments) as pool:
        try:
            return pool.submit(_batch, [file]).result()
        except BrokenProcessPool:
            return Result(skipped=[Skipped(file.file, "the parser died of it")])


def _pool(
    processes: int, arguments: tuple[Path, frozenset[str], Difference]
) -> ProcessPoolExecutor:
    # Not forked: a command that draws progress has threads, whose locks a fork would copy.
    return ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_start, initargs=arguments
    )


def _batches(files: Iterable[Listed]) -> Iterator[list[Listed]]:
    batch: list[Listed] = []
    size = 0
    for file in files:
        batch.append(file)
        size += file.size + 2000
        if size > _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


_worker: "_Worker | None" = None


def _start(root: Path, names: frozenset[str], difference: Difference) -> None:
    global _worker
    _worker = _Worker(root, names, difference)


def _batch(files: list[Listed]) -> Result:
    assert _worker is not None  # the pool's initializer
    result = Result()
    for file in files:
        result.add(_worker.file(file))
    return result


class _Worker:
    """Scans files one by one."""

    def __init__(self, root: Path, names: frozenset[str], difference: Difference) -> None:
        from fa3_matrix.migrate.scan import cmake, containers, python, shell

        self.root = root
        self.tree = Tree(root, names)
        self.difference = difference
        self.index = index_of(difference)
        self.others: tuple[ModuleType, ...] = (python, cmake, shell, containers)

    def file(self, listed: Listed) -> Result:
        """What one file comes to; whatever it does to a scanner is reported, and ends there."""
        name = listed.file
        try:
            data = (self.root / name).read_bytes()
        except OSError as error:
            return Result(skipped=[Skipped(name, f"cannot be read: {error.strerror}")])
        code = cxx.accepts(name, data[:_HEAD])
        others = [module for module in self.others if module.accepts(name, data[:_HEAD])]
        if not code and not others:
            return Result()
        if is_binary(data):
            return Result(skipped=[Skipped(name, "binary")])
        result = Result(
            files=1, lines=data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
        )
        try:
            if code:
                self._code(name, data, result)
            for module in others:
                text = data.decode("utf-8", "replace")
                result.findings += module.find(name, text, self.difference)
        except Fa3Error:
            raise
        except (RecursionError, MemoryError, ValueError, LookupError) as error:
            result.skipped.append(Skipped(name, f"not understood: {type(error).__name__}: {error}"))
        return result

    def _code(self, name: str, data: bytes, result: Result) -> None:
        if not (
            self.index.concerns(words_of(data))
            or any(
                self.index.is_header(header) for header in self.tree.remember(name, data).includes
            )
        ):
            return
        analysis = cxx.analyse(name, data.decode("utf-8", "replace"), self.index, self.tree)
        result.analyses.append(analysis)
        if analysis.partial:
            result.skipped.append(Skipped(name, analysis.partial))
