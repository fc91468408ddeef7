"""Attention by its definition, in fp32 and in the inputs' own dtype.

Softmax over the keys that a row may see, of s = scale * q.k, or softcap * tanh(s / softcap). Row i of a sequence with
sq queries and sk keys sees key j when i + sk - sq - left <= j <= i + sk - sq + right: bottom-right aligned, as in
FlashAttention since 2.1. A row that sees no key gives 0, and its lse is -inf.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from fa3_matrix.bench.inputs import Inputs
from fa3_matrix.bench.problems import Problem

# Scores of one chunk of the reference: 1 GB in fp32. Its keys, of which fp32 copies are made, are held to as many
# elements: at decode they outnumber the scores by far.
_CHUNK_SCORES = 2**28
# Scores that a problem's reference computes in all. Beyond this only some batches and heads are checked.
_MOST_SCORES = 2**30


@dataclass(frozen=True)
class Padded:
    """Sequences of one problem side by side, each in its own row of a dense batch.

    q: (batch, seqlen_q, heads_q, head_dim); k, v: (batch, seqlen_k, heads_k, head_dim), zero beyond a length.
    lengths_q, lengths_k: (batch,), the rows that attend and are attended to.
    rows: (batch, seqlen_q) bool, true where there is an output; beyond lengths_q it is 0 and its lse -inf.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    lengths_q: torch.Tensor
    lengths_k: torch.Tensor
    rows: torch.Tensor


class Window:
    """The part of a problem that is checked, and how to cut it out of the problem's tensors.

    What the call is to append to a cache must be there: see `inputs.appended`.

    Small problems are checked whole. Of a large one the first, the last and some batches and key heads between them
    are, as many as keep the reference within `most` scores.
    """

    def __init__(self, problem: Problem, inputs: Inputs, most: int = _MOST_SCORES) -> None:
        self._problem = problem
        self._inputs = inputs
        device = inputs.q.device
        group = problem.heads_q // problem.heads_k
        head_scores = max(problem.seqlen_q * problem.seqlen_k * group, 1)
        heads_k = _spread(problem.heads_k, max(most // max(head_scores * problem.batch, 1), 2))
        batches = _spread(problem.batch, max(most // (head_scores * len(heads_k)), 2))
        heads_q = [head * group + i for head in heads_k for i in range(group)]
        self.whole = len(batches) == problem.batch and len(heads_k) == problem.heads_k
        self._batches = torch.tensor(batches, dtype=torch.int64).to(device)
        self._heads_q = torch.tensor(heads_q).to(device)
        self._heads_k = torch.tensor(heads_k).to(device)
        self._index_q, self._rows_q, self._lengths_q = self._rows(
            inputs.cu_seqlens_q, inputs.seqused_q, problem.seqlen_q, inputs.q.shape[0]
        )
        self._index_k, _, self._lengths_k = self._rows(
            inputs.cu_seqlens_k, inputs.seqused_k, problem.seqlen_k, inputs.k.shape[0]
        )
        if inputs.cache_seqlens is not None:
            keys = inputs.cache_seqlens[self._batches].long() + problem.new_rows
            self._lengths_k = keys.clamp(0, problem.seqlen_k)

    def _rows(
        self, cu_seqlens: torch.Tensor | None, used: torch.Tensor | None, seqlen: int, total: int
    ) -> tuple[torch.Tensor | None, torch.Tensor, torch.Tensor]:
        """Row of the packed tensor (None: dense) and whether there is one, (batch, seqlen); used lengths (batch,)."""
        position = torch.arange(seqlen, device=self._batches.device)
        if cu_seqlens is None:
            lengths = torch.full_like(self._batches, seqlen)
            return None, position < lengths[:, None], lengths
        begins = cu_seqlens[self._batches].long()
        lengths = cu_seqlens[self._batches + 1] - begins
        index = (begins[:, None] + position).clamp_(max=max(total - 1, 0))
        used_lengths = lengths if used is None else used[self._batches].long()
        return index, position < lengths[:, None], used_lengths

    def padded(self) -> Padded:
        """The checked part of q, k and v."""
        inputs = self._inputs
        q = _zero_beyond(self._lengths_q, self.queries(inputs.q))
        k, v = (
            _zero_beyond(self._lengths_k, self._keys(tensor)) for tensor in (inputs.k, inputs.v)
        )
        return Padded(q, k, v, self._lengths_q, self._lengths_k, self._rows_q)

    def _keys(self, tensor: torch.Tensor) -> torch.Tensor:
        """(batch, seqlen_k, heads_k, head_dim) of k, v or a cache; any page stands in for what is no page."""
        table = self._inputs.page_table
        if table is None:
            return self._cut(tensor, self._index_k, self._heads_k, self._problem.seqlen_k)
        pages = table[self._batches].long().clamp(0, tensor.shape[0] - 1)
        return tensor[pages].flatten(1, 2)[:, :, self._heads_k]

    def queries(self, tensor: torch.Tensor) -> torch.Tensor:
        """(batch, seqlen_q, heads_q, ...) of a tensor shaped like q."""
        return self._cut(tensor, self._index_q, self._heads_q, self._problem.seqlen_q)

    def lse(self, tensor: torch.Tensor) -> torch.Tensor:
        """(batch, seqlen_q, heads_q) of an lse: (batch, heads_q, seqlen_q), or (heads_q, total_q) when packed."""
        return self.queries(tensor.transpose(-1, -2))

    def _cut(
        self, tensor: torch.Tensor, index: torch.Tensor | None, heads: torch.Tensor, seqlen: int
    ) -> torch.Tensor:
        if index is None:
            return tensor[self._batches][:, :, heads] if not self.whole else tensor
        if tensor.shape[0] == 0:
            return tensor.new_zeros((len(self._batches), seqlen, len(heads), *tensor.shape[2:]))
        return tensor[index][:, :, heads]


def _zero_beyond(lengths: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` (batch, seqlen, heads, head_dim) with zeros, not NaN, in rows that do not count."""
    rows = torch.arange(tensor.shape[1], device=tensor.device) < lengths[:, None]
    return torch.where(rows[:, :, None, None], tensor, 0)


def _spread(count: int, most: int) -> list[int]:
    """At most `most` of range(count), both ends among them."""
    if count <= most:
        return list(range(count))
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})


def attention(
    problem: Problem, padded: Padded, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns (out, lse) of the padded sequences.

    out: (batch, seqlen_q, heads_q, head_dim) in `dtype`; lse: (batch, seqlen_q, heads_q) in fp32.
    Every intermediate is held in `dtype`: with fp32 this is the reference, with the inputs' dtype the path by which
    PyTorch computes attention without a fused kernel, whose error is the yardstick.
    """
    batch, seqlen_q, heads_q, _ = padded.q.shape
    out = padded.q.new_empty(padded.q.shape, dtype=dtype)
    lse = padded.q.new_empty((batch, seqlen_q, heads_q), dtype=torch.float32)
    step_q = max(min(seqlen_q, _CHUNK_SCORES // max(heads_q * padded.k.shape[1], 1)), 1)
    most = max(heads_q * padded.k.shape[1] * step_q, padded.k[:1].numel(), 1)
    step_b = max(_CHUNK_SCORES // most, 1)
    for b in range(0, batch, step_b):
        for i in range(0, seqlen_q, step_q):
            part = (slice(b, b + step_b), slice(i, i + step_q))
            out[part], lse[part] = _chunk(problem, padded, dtype, *part)
    return out, lse


def _chunk(
    problem: Problem, padded: Padded, dtype: torch.dtype, batches: slice, rows: slice
) -> tuple[torch.Tensor, torch.Tensor]:
    q = padded.q[batches, rows].to(dtype)
    k, v = padded.k[batches].to(dtype), padded.v[batches].to(dtype)
    batch, count, heads_q, head_dim = q.shape
    heads_k = k.shape[2]
    group = heads_q // heads_k
    # (batch, heads_k, group * rows, head_dim): the query heads of one key head are rows of one product.
    grouped = q.reshape(batch, count, heads_k, group, head_dim).permute(0, 2, 3, 1, 4)
    grouped = (grouped * problem.softmax_scale).reshape(batch, heads_k, group * count, head_dim)
    scores = _product(grouped, k.permute(0, 2, 3, 1))
    if problem.softcap:
        scores = torch.tanh(scores / problem.softcap) * problem.softcap
    scores = scores.view(batch, heads_k, group, count, k.shape[1])
    row = torch.arange(count, device=q.device) + rows.start
    visible = _visible(problem, padded, batches, row)[:, None, None]
    scores = scores.masked_fill(~visible, -torch.inf)
    lse = torch.logsumexp(scores.float(), dim=-1)
    probabilities = torch.softmax(scores, dim=-1).masked_fill(~visible, 0)
    out = _product(probabilities.flatten(2, 3), v.permute(0, 2, 1, 3))
    out = out.reshape(batch, heads_q, count, head_dim).transpose(1, 2)
    return out, lse.reshape(batch, heads_q, count).transpose(1, 2)


@contextmanager
def full_precision_products() -> Iterator[None]:
    """Products in fp32 mean fp32 (TF32 keeps 10 bits), and those in 16 bits add up in fp32 to the end."""
    settings = torch.backends.cuda.matmul
    names = (
        "allow_tf32",
        "allow_bf16_reduced_precision_reduction",
        "allow_fp16_reduced_precision_reduction",
    )
    before = {name: getattr(settings, name) for name in names}
    try:
        for name in names:
            setattr(settings, name, False)
        yield
    finally:
        for name, value in before.items():
            setattr(settings, name, value)


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b, accumulated in fp32 and rounded once to their dtype."""
    if a.device.type == "cpu":
        # GPUs' libraries accumulate so by themselves; a CPU's 16-bit product is slow and may round partial sums.
        return (a.float() @ b.float()).to(a.dtype)
    return a @ b


def _visible(problem: Problem, padded: Padded, batches: slice, row: torch.Tensor) -> torch.Tensor:
    """(batch, rows, seqlen_k) bool: which keys each row sees."""
    lengths_q = padded.lengths_q[batches, None, None]
    lengths_k = padded.lengths_k[batches, None, None]
    key = torch.arange(padded.k.shape[1], device=row.device)
    diagonal = row[:, None] + lengths_k - lengths_q
    left, right = problem.effective_window
    visible = (key < lengths_k) & (row[:, None] < lengths_q)
    if left >= 0:
        visible = visible & (key >= diagonal - left)
    if right >= 0:
        visible = visible & (key <= diagonal + right)
    return visible
