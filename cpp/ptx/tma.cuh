// TMA: tiles of tensors described by a tensor map, copied to shared memory by one thread (PTX ISA,
// "cp.async.bulk.tensor", sm_90).
#pragma once

#include <cstdint>

#include "attention/tma_params.h"

namespace fa3::ptx {

// The box at coordinates (column, row, head, batch); elements outside the tensor arrive as zeros.
__device__ __forceinline__ void tma_load(uint32_t shared, const TensorMap* map, uint32_t barrier, int column, int row,
                                         int head, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::
          "r"(shared),
      "l"(map), "r"(barrier), "r"(column), "r"(row), "r"(head), "r"(batch)
      : "memory");
}

}  // namespace fa3::ptx
