"""A problem as a call of FlashAttention-3's Python functions, whose names and arguments this package shares."""

from functools import partial
from types import ModuleType
from typing import Any

from fa3_matrix.bench.inputs import Inputs
from fa3_matrix.bench.problems import Problem


def interface_call(
    module: ModuleType, problem: Problem, inputs: Inputs, **more: Any
) -> "partial[Any]":
    """The call of whichever of `module`'s functions `problem` is one of, with the keyword arguments `more`."""
    options: dict[str, Any] = {
        "softmax_scale": problem.scale,
        "causal": problem.causal,
        "window_size": problem.window,
        "softcap": problem.softcap,
        **more,
    }
    if problem.is_cache:
        return partial(
            module.flash_attn_with_kvcache,
            inputs.q,
            inputs.k,
            inputs.v,
            inputs.k_new,
            inputs.v_new,
            cache_seqlens=inputs.cache_seqlens,
            page_table=inputs.page_table,
            cu_seqlens_q=inputs.cu_seqlens_q,
            max_seqlen_q=problem.max_seqlen_q if problem.is_packed else None,
            num_splits=problem.num_splits,
            **options,
        )
    if problem.is_varlen:
        return partial(
            module.flash_attn_varlen_func,
            inputs.q,
            inputs.k,
            inputs.v,
            inputs.cu_seqlens_q,
            inputs.cu_seqlens_k,
            problem.max_seqlen_q,
            problem.max_seqlen_k,
            seqused_q=inputs.seqused_q,
            seqused_k=inputs.seqused_k,
            **options,
        )
    return partial(module.flash_attn_func, inputs.q, inputs.k, inputs.v, **options)
