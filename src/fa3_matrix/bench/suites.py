"""The suites of ``ci/matrix.toml`` as problems."""

from dataclasses import asdict

from fa3_matrix.bench.problems import Problem
from fa3_matrix.matrix import Matrix, load
from fa3_matrix.matrix.suites import ProblemRow


def from_row(row: ProblemRow) -> Problem:
    """The problem that a suite's row states, packed and contiguous, with the values of seed 0."""
    keys = asdict(row)
    if row.is_cache:
        for derived in ("is_cache", "lengths_k", "used_q"):
            del keys[derived]
        return Problem.kvcache(**keys)
    if not row.varlen:
        return Problem(**keys)
    for derived in ("batch", "seqlen_q", "seqlen_k"):
        del keys[derived]
    return Problem.varlen(**keys)


def suite_problems(name: str, matrix: Matrix | None = None) -> list[Problem]:
    """Problems of the suite called `name`, in the file's order.

    Raises MatrixError, listing the suites there are, for an unknown name.
    """
    return [from_row(row) for row in (matrix or load()).suite(name).problems]
