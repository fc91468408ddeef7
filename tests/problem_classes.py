"""Which class of a selection table a problem of the benchmarks is in, for the tests that look variants up."""

from collections.abc import Mapping
from typing import Any

from fa3_matrix.bench.problems import Problem
from fa3_matrix.matrix.model import Variant
from fa3_matrix.matrix.selection import ProblemClass, problem_class


def class_of(
    table: Mapping[ProblemClass, Variant], problem: Problem, **changed: Any
) -> ProblemClass:
    """The class of `problem`, whose facts `changed` replaces."""
    facts: dict[str, Any] = {
        "head_dim": problem.head_dim,
        "dtype": problem.dtype,
        "seqlen_q": problem.max_seqlen_q,
        "seqlen_k": problem.max_seqlen_k,
        "group": problem.group,
        "causal": problem.causal,
        "window": problem.window,
        "layout": problem.layout,
    }
    return problem_class({index.head_dim for index in table}, **(facts | changed))
