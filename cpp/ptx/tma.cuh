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

// The way back, by a thread for which `condition` holds; elements outside the tensor are not written. Belongs to this
// thread's open group of copies. A negative coordinate is an illegal instruction.
__device__ __forceinline__ void tma_store_if(bool condition, const TensorMap* map, uint32_t shared, int column, int row,
                                             int head, int batch) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.u32 p, %6, 0;\n"
      "@p cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];\n}" ::"l"(map),
      "r"(shared), "r"(column), "r"(row), "r"(head), "r"(batch), "r"(static_cast<uint32_t>(condition))
      : "memory");
}

__device__ __forceinline__ void tma_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Returns once the groups that this thread has committed have read all of their shared memory.
__device__ __forceinline__ void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

}  // namespace fa3::ptx
