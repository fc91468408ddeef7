// What a compiled variant says of itself. Each cubin holds one `<variant>_info` object beside its kernel; the
// build's audit reads it from the ELF, so that block sizes and shared memory are stated in the kernel's traits alone.
#pragma once

#include <cstdint>

namespace fa3 {

struct VariantInfo {
  int32_t abi_version;           // equals kForwardAbiVersion of forward_params.h
  int32_t head_dim;              // compiled head_dim; smaller ones are zero-padded in shared memory
  int32_t block_m;               // query rows of a tile
  int32_t block_n;               // key rows of a step
  int32_t threads;               // threads of a CTA
  int32_t dynamic_shared_bytes;  // to be asked for at launch
  int32_t stages;
  int32_t is_bf16;
  // 0: the argument is ForwardParams, and the grid has a CTA a tile. Otherwise it is TmaForwardParams (tma_params.h),
  // whose maps have boxes of this many columns, and the grid is persistent: at most a CTA an SM, at most a CTA a tile.
  int32_t tma_columns;
  // 1: a row of a tile is a (query, head of the group) pair, the grid has a CTA for each (row tile, K/V head, batch
  // entry, split), k and v may be paged, and the fatbin also holds <variant>_combine and <variant>_append
  // (append_params.h).
  int32_t splits_keys;
};

}  // namespace fa3
