"""The public attention functions: FlashAttention-3's names, argument order and defaults.

Importing this module imports torch if it is installed and registers the operators, so that the functions can be traced
by torch.compile; it touches no CUDA. What is missing is reported by the first call.
"""

import contextlib
import os
from typing import TYPE_CHECKING, Any

from fa3_matrix.errors import Fa3Error
from fa3_matrix.ops import operators, validate

try:
    import torch
except ImportError:  # inspecting a build needs no torch; a call says what to install
    torch = None

if TYPE_CHECKING:
    from torch import Tensor

# Read once: a call is too short to look into the environment.
_VALIDATE = os.environ.get("FA3_VALIDATE") == "1"

# torch.ops.fa3.fwd.default and torch.ops.fa3.varlen_fwd.default, once loaded.
_fwd: Any = None
_varlen_fwd: Any = None


def flash_attn_func(
    q: "Tensor",
    k: "Tensor",
    v: "Tensor",
    softmax_scale: float | None = None,
    causal: bool = False,
    qv: "Tensor | None" = None,
    q_descale: "Tensor | None" = None,
    k_descale: "Tensor | None" = None,
    v_descale: "Tensor | None" = None,
    window_size: tuple[int, int] = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    deterministic: bool = False,  # noqa: ARG001 (FlashAttention's; here it always is)
    sm_margin: int = 0,
    return_attn_probs: bool = False,
) -> "Tensor | tuple[Tensor, Tensor]":
    """softmax(softmax_scale * q k^T) v for each batch entry and head.

    Args:
        q: (batch, seqlen_q, heads_q, head_dim) on a CUDA device, float16 or bfloat16; head_dim a
            multiple of 8, at most 256. Any strides; a last dimension that is not contiguous costs
            a copy.
        k, v: (batch, seqlen_k, heads_k, head_dim), as q; heads_q is a multiple of heads_k (MQA, GQA).
        softmax_scale: finite; default head_dim ** -0.5.
        causal: query i sees keys up to i + seqlen_k - seqlen_q (bottom-right aligned). A query
            without keys gives 0.
        window_size: (left, right), how many keys further left and right than that one are seen;
            negative: no limit.
        softcap: scores become softcap * tanh(score / softcap) if it is not 0; from 0.001 to 10,000.
        deterministic: the forward pass always is.
        return_attn_probs: also return the log-sum-exp, under the name that FlashAttention has for it.
        qv, q_descale, k_descale, v_descale, attention_chunk, num_splits, pack_gqa, sm_margin: only
            their defaults are supported (num_splits may be 0, pack_gqa False).

    Returns:
        out (batch, seqlen_q, heads_q, head_dim), contiguous; or (out, softmax_lse) with softmax_lse
        (batch, heads_q, seqlen_q), float32, natural logarithm, -inf for a query without keys.

    Raises:
        TypeError, ValueError: a wrong argument.
        NotImplementedError: an unsupported argument, or in backward.
        NoKernelError: no build in use serves this GPU.
        DriverError: no driver, or it is too old.
    """
    _refuse_unsupported(
        qv, q_descale, k_descale, v_descale, attention_chunk, num_splits, pack_gqa, sm_margin
    )
    outputs = _call(q, k, v, (), softmax_scale, causal, window_size, softcap)
    return outputs if return_attn_probs else outputs[0]


def flash_attn_varlen_func(
    q: "Tensor",
    k: "Tensor",
    v: "Tensor",
    cu_seqlens_q: "Tensor",
    cu_seqlens_k: "Tensor",
    max_seqlen_q: int,
    max_seqlen_k: int,
    seqused_q: "Tensor | None" = None,
    seqused_k: "Tensor | None" = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    qv: "Tensor | None" = None,
    q_descale: "Tensor | None" = None,
    k_descale: "Tensor | None" = None,
    v_descale: "Tensor | None" = None,
    window_size: tuple[int, int] = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    deterministic: bool = False,  # noqa: ARG001 (FlashAttention's; here it always is)
    sm_margin: int = 0,
    return_attn_probs: bool = False,
) -> "Tensor | tuple[Tensor, Tensor]":
    """:func:`flash_attn_func` for sequences of different lengths, their rows concatenated.

    Args:
        q: (total_q, heads_q, head_dim).
        k, v: (total_k, heads_k, head_dim).
        cu_seqlens_q, cu_seqlens_k: (batch + 1), int32, on q's device: the first row of each sequence
            and, last, the end. Not read on the host, which would wait for the GPU: lying ones give
            wrong results but never an access outside the tensors. With FA3_VALIDATE=1 in the
            environment at import they are read and checked.
        max_seqlen_q, max_seqlen_k: the longest sequences, for speed.
        seqused_q, seqused_k: (batch), int32: how many rows of each sequence count; the others of q
            give 0.

    Returns:
        out (total_q, heads_q, head_dim); or (out, softmax_lse) with softmax_lse (heads_q, total_q).
        Rows that no sequence holds are not written.

    Raises:
        As :func:`flash_attn_func`.
    """
    _refuse_unsupported(
        qv, q_descale, k_descale, v_descale, attention_chunk, num_splits, pack_gqa, sm_margin
    )
    indices = (cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, max_seqlen_q, max_seqlen_k)
    outputs = _call(q, k, v, indices, softmax_scale, causal, window_size, softcap)
    return outputs if return_attn_probs else outputs[0]


def _refuse_unsupported(
    qv: Any,
    q_descale: Any,
    k_descale: Any,
    v_descale: Any,
    attention_chunk: int,
    num_splits: int,
    pack_gqa: bool | None,
    sm_margin: int,
) -> None:
    if (
        qv is None
        and q_descale is None
        and k_descale is None
        and v_descale is None
        and not attention_chunk
        and num_splits in (0, 1)
        and not pack_gqa
        and not sm_margin
    ):
        return
    given = {
        "qv": qv is not None,
        "q_descale": q_descale is not None,
        "k_descale": k_descale is not None,
        "v_descale": v_descale is not None,
        "attention_chunk": attention_chunk,
        "num_splits": num_splits not in (0, 1),
        "pack_gqa": pack_gqa,
        "sm_margin": sm_margin,
    }
    names = ", ".join(name for name, is_given in given.items() if is_given)
    raise NotImplementedError(f"{names}: not supported by fa3_matrix; leave at the default")


def _call(
    q: Any,
    k: Any,
    v: Any,
    indices: tuple[Any, ...],
    softmax_scale: float | None,
    causal: bool,
    window_size: tuple[int, int],
    softcap: float,
) -> Any:
    """Dispatch the operator, which checks its arguments; what is wrong is looked for here only once that has failed."""
    if _fwd is None:
        _load()
    operator = _varlen_fwd if indices else _fwd
    try:
        if _VALIDATE and indices and not torch.compiler.is_compiling():
            validate.check_indices(q, k, *indices)
        left, right = window_size
        scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
        arguments = (q, k, v, *indices, scale, causal, left, right, softcap)
        if torch.compiler.is_compiling() or (
            torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
        ):
            return operator(*arguments)
        # The autograd registration is Python: going below it saves more than half of a call.
        with torch._C._AutoDispatchBelowAutograd():
            return operator(*arguments)
    except Exception as error:
        tensors = {"q": q, "k": k, "v": v}
        if indices:
            tensors |= {"cu_seqlens_q": indices[0], "cu_seqlens_k": indices[1]}
        raise operators.precise(error, tensors) from None


def _load() -> None:
    global _fwd, _varlen_fwd
    registered = operators.load()
    _fwd, _varlen_fwd = registered.fwd.default, registered.varlen_fwd.default


if torch is not None:
    # Nothing built yet, say: the first call tries again and reports it.
    with contextlib.suppress(Fa3Error):
        _load()
