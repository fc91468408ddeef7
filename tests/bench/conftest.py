"""A small FlashAttention on the CPU: what the bench stage is tested with where there is no GPU.

It is written apart from `fa3_matrix.bench.reference` on purpose: sequence by sequence, head by head, over blocks of
keys with an online softmax in fp32 and probabilities rounded to the inputs' dtype, as the real kernels do it.
"""

from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import pytest
import torch

from fa3_matrix.bench import ceilings, measure, performance
from fa3_matrix.bench.inputs import Inputs
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.timing import interleave, launch_times
from fa3_matrix.build import Manifest, VariantRecord
from fa3_matrix.build.manifest import OccupancyRecord, SassRecord, ServesRecord, ToolkitRecord
from fa3_matrix.matrix import load

BLOCK_N = 64


def flash_attention(problem: Problem, inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    """out and lse of `problem`, shaped as the operators return them; unused rows are 0 and -inf."""
    out = torch.zeros(problem.shape_q, dtype=inputs.q.dtype)
    rows = problem.shape_q[:-2]
    lse = torch.full((problem.heads_q, *rows[-1:]), -torch.inf)
    if not problem.is_packed:
        lse = lse.expand(problem.batch, -1, -1).clone()
    group = problem.heads_q // problem.heads_k
    for q, k, v, out_rows, lse_rows in _sequences(problem, inputs, out, lse):
        for head in range(problem.heads_q):
            out_rows[:, head], lse_rows[head] = _one_head(
                problem, q[:, head], k[:, head // group], v[:, head // group]
            )
    return out, lse


def _sequences(
    problem: Problem, inputs: Inputs, out: torch.Tensor, lse: torch.Tensor
) -> Iterator[tuple[torch.Tensor, ...]]:
    if problem.is_cache:
        yield from _entries(problem, inputs, out, lse)
        return
    if not problem.is_varlen:
        yield from zip(inputs.q, inputs.k, inputs.v, out, lse, strict=True)
        return
    begins_q, begins_k = inputs.cu_seqlens_q.tolist(), inputs.cu_seqlens_k.tolist()
    for (used_q, used_k), begin_q, begin_k in zip(
        problem.pairs(), begins_q[:-1], begins_k[:-1], strict=True
    ):
        rows_q = slice(begin_q, begin_q + used_q)
        rows_k = slice(begin_k, begin_k + used_k)
        yield inputs.q[rows_q], inputs.k[rows_k], inputs.v[rows_k], out[rows_q], lse[:, rows_q]


def _entries(
    problem: Problem, inputs: Inputs, out: torch.Tensor, lse: torch.Tensor
) -> Iterator[tuple[torch.Tensor, ...]]:
    """Of each entry of a cache, once its new rows have been written: row by row, through the page table."""
    table = None if inputs.page_table is None else inputs.page_table.tolist()
    begins_q = None if inputs.cu_seqlens_q is None else inputs.cu_seqlens_q.tolist()
    lengths = None if inputs.cache_seqlens is None else inputs.cache_seqlens.tolist()

    def row_of(cache: torch.Tensor, entry: int, key: int) -> torch.Tensor:
        if table is None:
            return cache[entry, key]
        return cache[table[entry][key // problem.page_size], key % problem.page_size]

    for entry in range(problem.batch):
        keys = problem.seqlen_k if lengths is None else lengths[entry]
        for i in range(problem.new_rows):
            if 0 <= keys + i < problem.seqlen_k:
                row_of(inputs.k, entry, keys + i).copy_(inputs.k_new[entry, i])
                row_of(inputs.v, entry, keys + i).copy_(inputs.v_new[entry, i])
        rows = range(min(keys + problem.new_rows, problem.seqlen_k))
        empty = inputs.k.new_empty(0, problem.heads_k, problem.head_dim)
        k, v = (
            torch.stack([row_of(cache, entry, key) for key in rows]) if rows else empty
            for cache in (inputs.k, inputs.v)
        )
        if begins_q is None:
            yield inputs.q[entry], k, v, out[entry], lse[entry]
        else:
            q = slice(begins_q[entry], begins_q[entry + 1])
            yield inputs.q[q], k, v, out[q], lse[:, q]


def _one_head(
    problem: Problem, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    seqlen_q, seqlen_k = len(q), len(k)
    largest = torch.full((seqlen_q,), -torch.inf)
    total = torch.zeros(seqlen_q)
    sum_v = torch.zeros(seqlen_q, problem.head_dim)
    left, right = problem.effective_window
    diagonal = (torch.arange(seqlen_q) + seqlen_k - seqlen_q)[:, None]
    for begin in range(0, seqlen_k, BLOCK_N):
        key = torch.arange(begin, min(begin + BLOCK_N, seqlen_k))
        s = q.float() @ k[key].float().T * problem.softmax_scale
        if problem.softcap:
            s = problem.softcap * torch.tanh(s / problem.softcap)
        if left >= 0:
            s[key < diagonal - left] = -torch.inf
        if right >= 0:
            s[key > diagonal + right] = -torch.inf
        new_largest = torch.maximum(largest, s.amax(dim=1))
        shift = torch.where(new_largest == -torch.inf, 0, new_largest)
        p = torch.exp(s - shift[:, None])
        rescale = torch.exp(largest - shift)
        total = total * rescale + p.sum(dim=1)
        sum_v = sum_v * rescale[:, None] + p.to(v.dtype).float() @ v[key].float()
        largest = new_largest
    seen = total > 0
    out = torch.where(seen[:, None], sum_v / total[:, None], 0)
    return out.to(q.dtype), torch.where(seen, largest + total.log(), -torch.inf)


@pytest.fixture(name="flash_attention")
def flash_attention_fixture():
    """The CPU kernel, (problem, inputs) -> (out, lse)."""
    return flash_attention


# Reading the file takes half a second.
matrix = cache(load)


def write_build(folder: Path, cell: str = "sm90-cu133") -> Path:
    """A build folder as the build stage leaves it, without the fatbins: nothing is launched from it here."""
    found = matrix().cell(cell)
    low, high = found.target.capability_range()
    variants = [
        VariantRecord(
            name=variant.name,
            file=f"{variant.name}.fatbin",
            sha256="0" * 64,
            bytes=1,
            images=[str(found.target)],
            op="fwd",
            kernel=variant.kernel,
            dtype=variant.dtype,
            head_dim=variant.head_dim,
            block_m=variant.block_m,
            block_n=variant.block_n,
            stages=variant.stages,
            threads=variant.threads,
            tma_columns=variant.tma_columns,
            splits_keys=variant.splits_keys,
            dynamic_shared_bytes=1,
            static_shared_bytes=0,
            registers=255,
            barriers=1,
            spill_store_bytes=0,
            spill_load_bytes=0,
            spill_waiver="",
            stack_bytes=0,
            occupancy=OccupancyRecord(2, variant.threads // 16, "registers"),
            sass=SassRecord(1, {}, "0" * 64),
            compile_seconds=1.0,
            peak_compiler_bytes=1,
            advisories=[],
            serves=[ServesRecord(**serves.as_json()) for serves in variant.serves],
            candidate=variant.candidate,
        )
        for variant in matrix().variants(found.arch.name)
    ]
    manifest = Manifest(
        cell=cell,
        arch=found.arch.name,
        twin_of=found.twin_of,
        target=str(found.target),
        form=found.target.form,
        forward_abi=3,
        capability_range=[list(low), list(high)],
        toolkit=ToolkitRecord(found.toolkit.version, "nvcc"),
        assembled=None,
        git_revision=None,
        git_dirty=False,
        package_version=None,
        flags=[],
        build_seconds=1.0,
        peak_compiler_bytes=1,
        variants=variants,
    )
    folder.mkdir(parents=True)
    manifest.write(folder)
    return folder


@pytest.fixture(name="write_build")
def write_build_fixture():
    """write_build(folder, cell) -> folder."""
    return write_build


@pytest.fixture
def quick(monkeypatch) -> None:
    """Samples and launches of a few calls, and ceilings that a CPU reaches in no time."""
    monkeypatch.setattr(measure, "launch_times", partial(launch_times, rounds=2))
    for module in (measure, ceilings):
        monkeypatch.setattr(module, "interleave", partial(interleave, sample_seconds=1e-6))
    small = partial(ceilings.measure_ceilings, size=16, copied_bytes=2**16)
    monkeypatch.setattr(performance, "measure_ceilings", small)


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Of torch: these tensors are too small to be worth waking others for."""
    torch.set_num_threads(1)
