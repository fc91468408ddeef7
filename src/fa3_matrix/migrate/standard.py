"""Names of the C++ standard library that Thrust's and CUB's headers brought in up to CCCL 2, and do not from 3 on.

Compared: what g++ 12 reads for each of their 153 public headers of CCCL 2.3.2 and of 3.5.0, after `cuda_runtime.h`.
"""

from collections.abc import Iterator

from fa3_matrix.migrate.difference import Change, Remedy

_DEVICE = (
    *("adjacent_difference", "copy", "histogram", "memcpy", "merge_sort", "partition"),
    *("radix_sort", "reduce", "run_length_encode", "scan", "segmented_radix_sort"),
    *("segmented_reduce", "segmented_sort", "select"),
)
# They read <vector> still; the others below neither that nor any other header of the standard library named here.
_CONTAINERS = tuple(
    f"thrust/{name}.h"
    for name in (
        *("device_allocator", "device_make_unique", "device_new", "device_new_allocator"),
        *("device_vector", "host_vector", "per_device_resource", "system/cuda/memory"),
        *("system/cuda/memory_resource", "system/cuda/vector", "universal_allocator"),
        *("universal_ptr", "universal_vector"),
    )
)
_ALGORITHMS = (
    "cub/cub.cuh",
    *(f"cub/device/device_{name}.cuh" for name in _DEVICE),
    *(
        f"thrust/{name}.h"
        for name in (
            *("adjacent_difference", "binary_search", "copy", "count", "device_delete"),
            *("device_free", "device_malloc", "device_malloc_allocator", "device_ptr"),
            *("device_reference", "equal", "execution_policy", "extrema", "fill", "find"),
            *("for_each", "functional", "gather", "generate", "inner_product", "logical"),
            *("memory", "merge", "mismatch", "partition", "reduce", "remove", "replace"),
            *("reverse", "scan", "scatter", "sequence", "set_operations", "shuffle", "sort"),
            *("swap", "system/cuda/error", "system/cuda/execution_policy"),
            *("system/cuda/pointer", "system_error", "tabulate", "transform"),
            *("transform_reduce", "transform_scan", "uninitialized_copy"),
            *("uninitialized_fill", "unique"),
        )
    ),
)
_BLOCKS = (
    *("block/block_adjacent_difference", "block/block_discontinuity", "block/block_exchange"),
    *("block/block_histogram", "block/block_load", "block/block_merge_sort"),
    *("block/block_radix_rank", "block/block_radix_sort", "block/block_raking_layout"),
    *("block/block_reduce", "block/block_run_length_decode", "block/block_scan"),
    *("block/block_shuffle", "block/block_store", "block/radix_rank_sort_operations"),
    *("iterator/arg_index_input_iterator", "iterator/cache_modified_input_iterator"),
    *("iterator/cache_modified_output_iterator", "iterator/tex_obj_input_iterator"),
    *("thread/thread_load", "thread/thread_operators", "thread/thread_reduce"),
    *("thread/thread_scan", "thread/thread_search", "thread/thread_sort"),
    *("thread/thread_store", "util_device", "util_ptx", "util_type", "warp/warp_exchange"),
    *("warp/warp_load", "warp/warp_merge_sort", "warp/warp_reduce", "warp/warp_scan"),
    "warp/warp_store",
)
_ENGINES = (
    *("random", "random/discard_block_engine", "random/linear_congruential_engine"),
    *("random/linear_feedback_shift_engine", "random/normal_distribution"),
    *("random/subtract_with_carry_engine", "random/uniform_int_distribution"),
    *("random/uniform_real_distribution", "random/xor_combine_engine"),
)
_STREAMS = (
    *(name for name in (*_ALGORITHMS, *_CONTAINERS) if name != "thrust/functional.h"),
    *(f"cub/{name}.cuh" for name in _BLOCKS),
    *(f"thrust/{name}.h" for name in _ENGINES),
)
_ALL = (*_ALGORITHMS, *_CONTAINERS)
# Of libstdc++'s <algorithm>, without what other headers need too: copy, fill, min, max, equal, lower_bound ...
_OF_ALGORITHM = (
    *("sort", "stable_sort", "partial_sort", "nth_element", "is_sorted", "shuffle"),
    *("find", "find_if", "find_if_not", "count", "count_if", "for_each", "transform"),
    *("generate", "generate_n", "reverse", "rotate", "unique", "remove_if"),
    *("replace", "replace_if", "copy_if", "copy_n", "min_element", "max_element"),
    *("minmax_element", "all_of", "any_of", "none_of", "adjacent_find", "binary_search"),
    *("upper_bound", "next_permutation", "set_union", "set_intersection", "set_difference"),
)
# header, its names, headers that brought them in, headers that do now.
_LOST: tuple[tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    ("iostream", ("cout", "cerr", "clog", "cin"), _STREAMS, ()),
    ("algorithm", _OF_ALGORITHM, _ALL, ("functional", "regex", "valarray", "execution")),
    ("functional", ("function", "bind", "not_fn"), _ALL, ("regex", "future", "execution")),
    ("array", ("array",), _ALL, ("functional", "execution")),
    (
        "unordered_map",
        ("unordered_map", "unordered_multimap"),
        tuple(name for name in _ALL if name != "thrust/per_device_resource.h"),
        ("functional", "execution", "thrust/per_device_resource.h"),
    ),
    (
        "vector",
        ("vector",),
        _ALGORITHMS,
        ("functional", "random", "queue", "regex", "memory_resource", "execution", *_CONTAINERS),
    ),
)


def standard_rows(old_cccl: str, new_cccl: str) -> Iterator[Change]:
    """Rows of rule INCLUDE-TRANSITIVE, from CCCL 2 to a later major; of which release of it is not known."""
    if not old_cccl.startswith("2.") or new_cccl.startswith("2."):
        return
    for header, names, lost_from, brought_by in _LOST:
        for name in names:
            yield Change(
                rule="INCLUDE-TRANSITIVE",
                name=f"std::{name}",
                kind="cccl",
                where=header,
                since=None,
                old=f"brought in by {len(lost_from)} public headers",
                new=None,
                remedy=Remedy(f"Include <{header}>.", both=f"#include <{header}>"),
                lost_from=lost_from,
                brought_by=(*brought_by, "bits/stdc++.h"),
            )
