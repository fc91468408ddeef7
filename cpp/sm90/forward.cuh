// The Hopper forward kernel: a persistent grid; in each CTA a producer warpgroup, of which one thread loads by TMA, and one to three
// consumer warpgroups that multiply by wgmma.
#pragma once

#include <cstdint>

#include "attention/tma_params.h"
#include "attention/variant_info.h"
#include "ptx/warpgroup.cuh"
#include "sm90/consumer.cuh"
#include "sm90/producer.cuh"
#include "sm90/shared_storage.cuh"

namespace fa3::sm90 {

template <typename Traits>
__device__ __forceinline__ void forward(const TmaForwardParams& params) {
  extern __shared__ uint8_t unaligned[];
  const uintptr_t base = (reinterpret_cast<uintptr_t>(unaligned) + 1023) & ~uintptr_t{1023};
  SharedStorage<Traits>& shared = *reinterpret_cast<SharedStorage<Traits>*>(base);
  if (threadIdx.x == 0) shared.init_barriers();
  __syncthreads();
  if (threadIdx.x < 128) {
    ptx::registers_lower<Traits::kProducerRegisters>();
    if (threadIdx.x == 0) Producer<Traits>{params, shared}.run();
  } else {
    ptx::registers_raise<Traits::kConsumerRegisters>();
    Consumer<Traits>(params.forward, shared, threadIdx.x / 128 - 1).run();
  }
}

template <typename Traits>
constexpr VariantInfo variant_info(int32_t is_bf16) {
  return {kForwardAbiVersion, Traits::kHeadDim,     Traits::kBlockM, Traits::kBlockN, Traits::kThreads,
          kSharedBytes<Traits>, Traits::kStages, is_bf16,         Traits::kPanel};
}

}  // namespace fa3::sm90
