"""The public attention functions: FlashAttention-3's names, argument order and defaults.

Importing this module imports torch if it is installed and registers the operators, so that the functions can be traced
by torch.compile; it touches no CUDA. What is missing is reported by the first call.
"""

import contextlib
import os
from typing import TYPE_CHECKING, Any, NoReturn

from fa3_matrix.errors import Fa3Error
from fa3_matrix.ops import direct, operators, validate

try:
    import torch
except ImportError:  # inspecting a build needs no torch; a call says what to install
    torch = None

if TYPE_CHECKING:
    from torch import Tensor

# Read once: a call is too short to look into the environment.
_VALIDATE = os.environ.get("FA3_VALIDATE") == "1"

# The default overloads of torch.ops.fa3, by name, once loaded; and, where they exist, the functions that serve plain
# calls past the dispatcher.
_operators: dict[str, Any] = {}
_direct: dict[str, Any] = {}


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
    pack_gqa: bool | None = None,  # noqa: ARG001 (a hint)
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
        num_splits: into how many parts the keys may be cut, which run at once and are merged: for few
            queries and many keys. 1: not cut, and each row's result does not depend on the other
            batch entries, as long as shapes and stated maxima choose the same kernel; 0: chosen from
            the shapes; n: at most n. A kernel for long queries does not cut.
        pack_gqa: a hint of FlashAttention's; any value gives the same result.
        qv, q_descale, k_descale, v_descale, attention_chunk, sm_margin: only their defaults are
            supported.

    Returns:
        out (batch, seqlen_q, heads_q, head_dim), contiguous; or (out, softmax_lse) with softmax_lse
        (batch, heads_q, seqlen_q), float32, natural logarithm, -inf for a query without keys.

    Raises:
        TypeError, ValueError: a wrong argument.
        NotImplementedError: an unsupported argument, or in backward.
        NoKernelError: no build in use serves this GPU.
        DriverError: no driver, or it is too old.
    """
    if not (qv is q_descale is k_descale is v_descale is None) or attention_chunk or sm_margin:
        _refuse(
            qv=qv,
            q_descale=q_descale,
            k_descale=k_descale,
            v_descale=v_descale,
            attention_chunk=attention_chunk or None,
            sm_margin=sm_margin or None,
        )
    scores = (softmax_scale, causal, window_size, softcap)
    return _call("fwd", (q, k, v), (), scores, num_splits, return_attn_probs)


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
    pack_gqa: bool | None = None,  # noqa: ARG001 (a hint)
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
    if not (qv is q_descale is k_descale is v_descale is None) or attention_chunk or sm_margin:
        _refuse(
            qv=qv,
            q_descale=q_descale,
            k_descale=k_descale,
            v_descale=v_descale,
            attention_chunk=attention_chunk or None,
            sm_margin=sm_margin or None,
        )
    indices = (cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, max_seqlen_q, max_seqlen_k)
    scores = (softmax_scale, causal, window_size, softcap)
    return _call("varlen_fwd", (q, k, v), indices, scores, num_splits, return_attn_probs)


def flash_attn_with_kvcache(
    q: "Tensor",
    k_cache: "Tensor",
    v_cache: "Tensor",
    k: "Tensor | None" = None,
    v: "Tensor | None" = None,
    qv: "Tensor | None" = None,
    rotary_cos: "Tensor | None" = None,
    rotary_sin: "Tensor | None" = None,
    cache_seqlens: "int | Tensor | None" = None,
    cache_batch_idx: "Tensor | None" = None,
    cache_leftpad: "Tensor | None" = None,
    page_table: "Tensor | None" = None,
    cu_seqlens_q: "Tensor | None" = None,
    cu_seqlens_k_new: "Tensor | None" = None,
    max_seqlen_q: int | None = None,
    rotary_seqlens: "Tensor | None" = None,
    q_descale: "Tensor | None" = None,
    k_descale: "Tensor | None" = None,
    v_descale: "Tensor | None" = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    rotary_interleaved: bool = True,  # noqa: ARG001 (of the rotary embedding that is refused)
    scheduler_metadata: "Tensor | None" = None,
    num_splits: int = 0,
    pack_gqa: bool | None = None,  # noqa: ARG001 (a hint)
    sm_margin: int = 0,
    return_softmax_lse: bool = False,
) -> "Tensor | tuple[Tensor, Tensor]":
    """:func:`flash_attn_func` of new queries against a cache of keys and values, which the call may append to.

    The queries of an entry are the last ones of its keys: `causal` and `window_size` align them to
    the bottom right of the keys that count, new ones included.

    Args:
        q: (batch, seqlen_q, heads_q, head_dim), or (total_q, heads_q, head_dim) with `cu_seqlens_q`.
        k_cache, v_cache: (batch, capacity, heads_k, head_dim); or with `page_table`
            (pages, page_size, heads_k, head_dim), any page_size from 1.
        k, v: (batch, new_rows, heads_k, head_dim), copied into the caches, in place, at rows
            cache_seqlens[b] and on, before attention is computed. Rows beyond the capacity are
            dropped. No gradient reaches them.
        cache_seqlens: (batch), int32, or one int for all: how many keys of each entry count, those
            of `k` not included; None: all of the capacity. At most the capacity counts, and below 0
            is 0. It is not changed. Not read on the host, like page_table and cu_seqlens_q: all
            three may change between replays of a CUDA graph.
        page_table: (batch, pages_per_sequence), int32: the pages of each entry in order. Entries
            past the keys that count may hold anything; lying ones give wrong results but never an
            access outside the caches. With FA3_VALIDATE=1 in the environment at import these
            tensors are read and checked.
        cu_seqlens_q: (batch + 1), int32: see :func:`flash_attn_varlen_func`; it needs
            `max_seqlen_q`, the most queries of an entry.
        num_splits, pack_gqa: see :func:`flash_attn_func`.
        return_softmax_lse: also return the log-sum-exp.
        qv, rotary_cos, rotary_sin, cache_batch_idx, cache_leftpad, cu_seqlens_k_new, rotary_seqlens,
            q_descale, k_descale, v_descale, attention_chunk, scheduler_metadata, sm_margin: only
            their defaults are supported.

    Returns:
        out, shaped as q, contiguous; or (out, softmax_lse) with softmax_lse (batch, heads_q,
        seqlen_q) or (heads_q, total_q), float32.

    Raises:
        ValueError: k without v or without cache_seqlens; cu_seqlens_q without max_seqlen_q.
        Others: as :func:`flash_attn_func`.
    """
    if (
        not (qv is rotary_cos is rotary_sin is rotary_seqlens is scheduler_metadata is None)
        or not (cache_batch_idx is cache_leftpad is cu_seqlens_k_new is None)
        or not (q_descale is k_descale is v_descale is None)
        or attention_chunk
        or sm_margin
    ):
        _refuse(
            qv=qv,
            rotary_cos=rotary_cos,
            rotary_sin=rotary_sin,
            cache_batch_idx=cache_batch_idx,
            cache_leftpad=cache_leftpad,
            cu_seqlens_k_new=cu_seqlens_k_new,
            rotary_seqlens=rotary_seqlens,
            q_descale=q_descale,
            k_descale=k_descale,
            v_descale=v_descale,
            attention_chunk=attention_chunk or None,
            scheduler_metadata=scheduler_metadata,
            sm_margin=sm_margin or None,
        )
    if (k is None) != (v is None):
        raise ValueError("k and v are the new rows of both caches: give both or neither")
    if k is not None and cache_seqlens is None:
        raise ValueError("k and v are given without cache_seqlens, which says where they go")
    if cu_seqlens_q is not None and max_seqlen_q is None:
        raise ValueError("cu_seqlens_q is given without max_seqlen_q, the most queries of an entry")
    if isinstance(cache_seqlens, int):
        cache_seqlens = _filled(cache_seqlens, k_cache, page_table)
    cache = (cache_seqlens, page_table, cu_seqlens_q, max_seqlen_q)
    scores = (softmax_scale, causal, window_size, softcap)
    caches = (q, k_cache, v_cache)
    return _call("kvcache_fwd", caches, cache, scores, num_splits, return_softmax_lse, (k, v))


def _filled(length: int, k_cache: Any, page_table: Any) -> Any:
    """`cache_seqlens` for an int; of what is no tensor the operator's call says so."""
    batched = k_cache if page_table is None else page_table
    if torch is None or not isinstance(batched, torch.Tensor):
        return length
    return torch.full((batched.shape[0],), length, dtype=torch.int32, device=batched.device)


def _refuse(**given: Any) -> NoReturn:
    names = ", ".join(name for name, value in given.items() if value is not None)
    raise NotImplementedError(f"{names}: not supported by fa3_matrix; leave at the default")


def _call(
    name: str,
    tensors: tuple[Any, Any, Any],
    indices: tuple[Any, ...],
    scores: tuple[float | None, bool, tuple[int, int], float],
    num_splits: int,
    return_lse: bool,
    new: tuple[Any, Any] = (None, None),
) -> Any:
    """out, or (out, lse). The operator checks its arguments: what is wrong is looked for only once that has failed."""
    if not _operators:
        _load()
    try:
        q, k, v = tensors
        if _VALIDATE and indices and not torch.compiler.is_compiling():
            _validate(name, tensors, indices, new)
        softmax_scale, causal, (left, right), softcap = scores
        if name == "kvcache_fwd":
            cache_seqlens, page_table, cu_seqlens_q, max_seqlen_q = indices
            longest = q.shape[1] if cu_seqlens_q is None else max_seqlen_q
            new_rows = 0 if new[0] is None else new[0].shape[1]
            indices = (cache_seqlens, page_table, cu_seqlens_q, longest, new_rows)
        is_traced = torch.compiler.is_compiling()
        past_dispatcher = {} if is_traced else _direct
        if new[0] is not None:
            appended = (k, v, *new, cache_seqlens, page_table)
            append_kv = past_dispatcher.get("append_kv")
            if append_kv is None or append_kv(*appended) is None:
                _dispatch("append_kv", appended, is_traced)
        if past_dispatcher and not return_lse:
            out = past_dispatcher[name](
                q, k, v, *indices, softmax_scale, causal, left, right, softcap, num_splits
            )
            if out is not None:
                return out
        scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
        arguments = (q, k, v, *indices, scale, causal, left, right, softcap, num_splits)
        outputs = _dispatch(name, arguments, is_traced)
        return outputs if return_lse else outputs[0]
    except Exception as error:
        raise operators.precise(error, _named(name, tensors, indices, new)) from None


def _dispatch(name: str, arguments: tuple[Any, ...], is_traced: bool) -> Any:
    if is_traced or (torch.is_grad_enabled() and any(t.requires_grad for t in arguments[:3])):
        return _operators[name](*arguments)
    # The autograd registration is Python: going below it saves more than half of a call.
    with torch._C._AutoDispatchBelowAutograd():
        return _operators[name](*arguments)


def _validate(
    name: str, tensors: tuple[Any, Any, Any], indices: tuple[Any, ...], new: tuple[Any, Any]
) -> None:
    q, k, _ = tensors
    if name == "varlen_fwd":
        validate.check_indices(q, k, *indices)
    else:
        new_rows = 0 if new[0] is None else new[0].shape[1]
        validate.check_cache(q, k, new_rows, *indices)


def _named(
    name: str, tensors: tuple[Any, Any, Any], indices: tuple[Any, ...], new: tuple[Any, Any]
) -> dict[str, Any]:
    """The tensors of a call that failed, by the names that the caller knows; optional ones only if given."""
    if name != "kvcache_fwd":
        named = dict(zip(("q", "k", "v"), tensors, strict=True))
        return named | dict(zip(("cu_seqlens_q", "cu_seqlens_k"), indices, strict=False))
    named = dict(zip(("q", "k_cache", "v_cache"), tensors, strict=True))
    optional = dict(zip(("k", "v"), new, strict=True))
    cache_seqlens, page_table, cu_seqlens_q = indices[:3]
    # Lengths last: they may be an int because another of these is no tensor.
    optional |= {"page_table": page_table, "cu_seqlens_q": cu_seqlens_q}
    optional["cache_seqlens"] = cache_seqlens
    return named | {key: value for key, value in optional.items() if value is not None}


def _load() -> None:
    registered = operators.load()
    _direct.update(direct.load())
    for name in operators.NAMES:
        _operators[name] = getattr(registered, name).default


if torch is not None:
    # Nothing built yet, say: the first call tries again and reports it.
    with contextlib.suppress(Fa3Error):
        _load()
