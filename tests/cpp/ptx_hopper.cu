// Kernels for Hopper's wrappers of the PTX layer but wgmma. tests/gpu/ptx/test_hopper.py launches them and knows what is
// right.
#include <cstdint>

#include "ptx/grid_order.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/tma.cuh"
#include "ptx/warpgroup.cuh"
#include "ptx_test.cuh"

using namespace fa3;
using namespace fa3::test;

namespace {

constexpr int kBarrierBytes = 1024;  // as much as keeps what follows aligned for any swizzle

// Long against the latency of a barrier: who does not wait for the sleeper reads what was there before.
__device__ void sleep(int quarters) {
  __nanosleep(quarters * 500);
}

}  // namespace

// Four producer warps and one consumer warp take turns at 128 words, by phases of two barriers.
extern "C" __global__ void mbarrier_ring(uint4* seen, int phases) {
  poison_shared(kBarrierBytes + 128 * 4);
  const uint32_t full = ptx::shared_address(shared_memory), empty = full + 8;
  uint32_t* const words = reinterpret_cast<uint32_t*>(shared_memory + kBarrierBytes);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(full, 128);
    ptx::mbarrier_init(empty, 32);
    ptx::mbarrier_init_fence();
  }
  __syncthreads();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int phase = 0; phase < phases; ++phase) {
    const int parity = phase & 1;
    if (warp < 4) {
      ptx::mbarrier_wait(empty, parity ^ 1);  // of a new barrier, the phase before the first counts as ended
      sleep((warp + phase) % 4);              // every warp is once the last to arrive
      words[threadIdx.x] = phase * 128 + threadIdx.x;
      ptx::mbarrier_arrive(full);
    } else {
      ptx::mbarrier_wait(full, parity);
      seen[phase * 32 + lane] = reinterpret_cast<const uint4*>(words)[lane];
      ptx::mbarrier_arrive(empty);
    }
  }
}

// Boxes side by side under one barrier, as the forward kernel loads the panels of a tile; the last warp's first thread
// loads. The bytes are announced, and so the one arrival made, long before the first box is asked for.
extern "C" __global__ void tma_boxes(const __grid_constant__ TensorMap map, uint4* out, int column, int row, int head,
                                     int batch, int boxes, int box_columns, int box_bytes) {
  const int guarded_bytes = boxes * box_bytes + 1024;
  poison_shared(kBarrierBytes + guarded_bytes);
  ptx::fence_async_proxy();  // the poison comes before what TMA writes
  const uint32_t barrier = ptx::shared_address(shared_memory), tile = barrier + kBarrierBytes;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(barrier, 1);
    ptx::mbarrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x == 128) {
    ptx::mbarrier_expect(barrier, boxes * box_bytes);
    for (int box = 0; box < boxes; ++box) {
      sleep(2);
      ptx::tma_load(tile + box * box_bytes, &map, barrier, column + box * box_columns, row, head, batch);
    }
  } else if (threadIdx.x < 128) {
    ptx::mbarrier_wait(barrier, 0);
    for (int i = threadIdx.x; i < guarded_bytes / 16; i += 128) {
      out[i] = reinterpret_cast<const uint4*>(shared_memory + kBarrierBytes)[i];
    }
  }
}

// One warp. Row i of the matrices goes to line order[i] of the memory, which is then read back.
extern "C" __global__ void stmatrix(const uint4* fragments, const int* order, uint4* lines) {
  poison_shared(512);
  const uint4 d = fragments[threadIdx.x];
  ptx::stmatrix_x4(ptx::shared_address(shared_memory) + order[threadIdx.x] * 16, {d.x, d.y, d.z, d.w});
  __syncwarp();
  lines[threadIdx.x] = reinterpret_cast<const uint4*>(shared_memory)[threadIdx.x];
}

// Boxes side by side, as the forward kernel stores the panels of a tile, by one of the threads that all ask for it. Once
// they have been read the memory is overwritten: who does not wait for that stores the poison.
extern "C" __global__ void tma_stores(const __grid_constant__ TensorMap map, const uint4* in, int column, int row,
                                      int head, int batch, int boxes, int box_columns, int box_bytes, int storer) {
  copy_bytes(shared_memory, in, boxes * box_bytes);
  ptx::fence_async_proxy();
  __syncthreads();
  for (int box = 0; box < boxes; ++box) {
    ptx::tma_store_if(static_cast<int>(threadIdx.x) == storer, &map,
                      ptx::shared_address(shared_memory) + box * box_bytes, column + box * box_columns, row, head,
                      batch);
  }
  ptx::tma_store_commit();
  ptx::tma_store_wait_read();
  __syncthreads();
  poison_shared(boxes * box_bytes);
}

// Two producer warps write and arrive; the consumer warp syncs and reads, then lets them overwrite by the next barrier.
extern "C" __global__ void named_barriers(uint2* seen, int id, int rounds) {
  poison_shared(64 * 4);
  uint32_t* const words = reinterpret_cast<uint32_t*>(shared_memory);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int round = 0; round < rounds; ++round) {
    if (warp < 2) {
      sleep((warp + round) % 2 * 2);
      words[threadIdx.x] = round * 64 + threadIdx.x;
      ptx::named_barrier_arrive(id, 96);
      ptx::named_barrier_sync(id + 1, 96);
    } else {
      ptx::named_barrier_sync(id, 96);
      sleep(round % 2);
      seen[round * 32 + lane] = reinterpret_cast<const uint2*>(words)[lane];
      ptx::named_barrier_arrive(id + 1, 96);
    }
  }
}

__device__ uint64_t nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// A link of a chain of launches, whose result is wrong if one reads before the one before it has written.
extern "C" __global__ void chained(uint32_t* values, uint64_t* begin_and_end) {
  if (threadIdx.x == 0) begin_and_end[0] = nanoseconds();
  ptx::follow_grids_before();
  const uint32_t before = values[threadIdx.x];
  for (int i = 0; i < 100; ++i) sleep(4);  // longer than a launch takes on the host
  values[threadIdx.x] = 3 * before + 1;
  if (threadIdx.x == 0) begin_and_end[1] = nanoseconds();
}

// The forward kernel's trade: one warpgroup's registers for more in two others, which then keep 200 values across a
// barrier. The launch bounds give each of the 384 threads 168 at first.
extern "C" __global__ void __launch_bounds__(384, 1) setmaxnreg(const float* in, float* out) {
  constexpr int kValues = 200;
  if (threadIdx.x < 128) {
    ptx::registers_lower<40>();
    out[2 * 128 * kValues + threadIdx.x] = in[threadIdx.x];
  } else {
    ptx::registers_raise<232>();
    const int thread = threadIdx.x - 128;
    const volatile float* own = in + thread;  // or else the loads would sink under the barrier
    float values[kValues];
#pragma unroll
    for (int i = 0; i < kValues; ++i) values[i] = own[i * 256];
    ptx::named_barrier_sync(1, 256);
#pragma unroll
    for (int i = 0; i < kValues; ++i) out[i * 256 + thread] = values[kValues - 1 - i];
  }
}
