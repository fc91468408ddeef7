"""Builds as arms: which variant a problem uses, and how to call one."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

import fa3_matrix
from fa3_matrix.bench.calls import interface_call
from fa3_matrix.bench.correctness import Kernel
from fa3_matrix.bench.inputs import Inputs
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.session import build_folder
from fa3_matrix.build import Manifest, VariantRecord
from fa3_matrix.errors import BenchError
from fa3_matrix.matrix import ComputeCapability


@dataclass(frozen=True)
class BuildArm:
    """One build that can run here: its folder and its manifest."""

    folder: Path
    manifest: Manifest

    @classmethod
    def open(cls, path: Path) -> "BuildArm":
        """Opens a build folder, or the CMake folder around it. Raises BenchError when neither holds a manifest."""
        folder = build_folder(path)
        return cls(folder, Manifest.read(folder))

    @property
    def name(self) -> str:
        """The cell's or the twin's name."""
        return self.manifest.cell

    def variant(self, problem: Problem) -> VariantRecord:
        """The variant that serves `problem`: what `fa3_matrix.explain` says of this build alone.

        Raises BenchError when none does.
        """
        decision = fa3_matrix.explain(
            seqlen_q=problem.max_seqlen_q,
            seqlen_k=problem.max_seqlen_k,
            head_dim=problem.head_dim,
            dtype=problem.dtype,
            group=problem.group,
            causal=problem.causal,
            window_size=problem.window,
            layout=problem.layout,
            compute_capability=ComputeCapability(*self.manifest.capability_range[0]),
            builds=[self.folder],
        )
        if decision.variant is None:
            raise BenchError(f"{self.name} serves no {decision.problem}: {decision}")
        return self.manifest.variant(decision.variant.name)

    def use(self) -> None:
        """Makes every call use this build until another one is named. Cheap enough to precede each call."""
        fa3_matrix.use_build(self.folder)

    def kernel(self) -> Kernel:
        """Calls the public functions on this build, which stays in use."""

        def call(problem: Problem, inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
            self.use()
            return call_interface(problem, inputs)

        return call


def call_interface(problem: Problem, inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    """``flash_attn_func`` or whichever of its siblings `problem` is a call of; returns (out, lse)."""
    keyword = "return_softmax_lse" if problem.is_cache else "return_attn_probs"
    out, lse = _call(problem, inputs, **{keyword: True})()
    return out, lse


def plain_call(problem: Problem, inputs: Inputs) -> "partial[torch.Tensor]":
    """The same as most callers write it: without the lse, which takes the shortest way to the driver."""
    return _call(problem, inputs)


def _call(problem: Problem, inputs: Inputs, **more: Any) -> "partial[Any]":
    # Of a cache num_splits is stated by `interface_call` itself.
    splits = {} if problem.is_cache else {"num_splits": problem.num_splits}
    return interface_call(fa3_matrix, problem, inputs, **splits, **more)
