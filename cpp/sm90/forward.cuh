// The Hopper forward kernel: a persistent grid; in each CTA a producer warpgroup, of which two threads load by TMA, and
// one to three consumer warpgroups that multiply by wgmma.
#pragma once

#include <cstdint>

#include "attention/tma_params.h"
#include "attention/variant_info.h"
#include "ptx/grid_order.cuh"
#include "ptx/warpgroup.cuh"
#include "sm90/consumer.cuh"
#include "sm90/key_producer.cuh"
#include "sm90/query_producer.cuh"
#include "sm90/shared_storage.cuh"

namespace fa3::sm90 {

template <typename Traits>
__device__ __forceinline__ void forward(const TmaForwardParams& params) {
  // Without static shared memory the dynamic part starts at a multiple of 1024; aligning it by hand would hide from the
  // compiler that it is shared.
  extern __shared__ __align__(1024) uint8_t storage[];
  SharedStorage<Traits>& shared = *reinterpret_cast<SharedStorage<Traits>*>(storage);
  if (threadIdx.x == 0) {
    if (ptx::shared_address(storage) % 1024 != 0) __trap();
    shared.init_barriers();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    ptx::registers_lower<Traits::kProducerRegisters>();
    if (threadIdx.x == 0) {
      KeyProducer<Traits>(params, shared).run();
    } else if (threadIdx.x == 32) {
      ptx::follow_grids_before();  // no other thread reads or writes before this one has told it of a tile
      QueryProducer<Traits>(params, shared).run();
    }
  } else {
    ptx::registers_raise<Traits::kConsumerRegisters>();
    Consumer<Traits>(params, shared, threadIdx.x / 128 - 1).run();
  }
}

template <typename Traits>
constexpr VariantInfo variant_info(int32_t is_bf16) {
  return {kForwardAbiVersion, Traits::kHeadDim,
          Traits::kBlockM,    Traits::kBlockN,
          Traits::kThreads,   static_cast<int32_t>(sizeof(SharedStorage<Traits>)),
          Traits::kStagesK,   is_bf16,
          Traits::kPanel,     0};
}

}  // namespace fa3::sm90
