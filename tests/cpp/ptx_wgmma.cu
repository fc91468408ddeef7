// wgmma over every shape of the layer, with descriptors as the forward kernel makes them: 128 rows by two warpgroups.
// tests/gpu/ptx/test_wgmma.py launches the kernels, lays the tiles out by the PTX manual's tables and knows what is right.
#include <cstdint>

#include "ptx/shared.cuh"
#include "ptx/warpgroup.cuh"
#include "ptx/wgmma.cuh"
#include "ptx_test.cuh"
#include "sm90/shared_storage.cuh"

namespace fa3::test {

constexpr int kRowsA = 128;

// What a descriptor asks of its traits, for a tile in shared memory of any shape.
template <int kRows, int kColumns>
struct SharedTile {
  static constexpr int kBlockN = kRows;
  static constexpr int kPanel = kColumns % 64 == 0 ? 64 : 32;
  static constexpr int kPanelBytes = 2 * kPanel;
  static constexpr int kBytes = 2 * kRows * kColumns;
  static_assert(kColumns % 32 == 0 && kBytes % 1024 == 0);
};

enum class Source { kShared, kRegisters };  // of A
enum class Major { kK, kMN };               // of B

template <int kN, int kK, Major kMajor>
struct SharedTileB : SharedTile<kN, kK> {
  __device__ static auto descriptor(uint32_t tile) { return sm90::Descriptor<SharedTileB>::k_major(tile); }
  __device__ static uint64_t at(const sm90::Descriptor<SharedTileB>& b, int step) { return b.columns(step, kN); }
};
template <int kN, int kK>
struct SharedTileB<kN, kK, Major::kMN> : SharedTile<kK, kN> {
  __device__ static auto descriptor(uint32_t tile) { return sm90::Descriptor<SharedTileB>::mn_major(tile); }
  __device__ static uint64_t at(const sm90::Descriptor<SharedTileB>& b, int step) { return b.rows(step); }
};

// Ordinary writes, which wgmma is to see.
__device__ void fill_shared(const uint4* first, int first_bytes, const uint4* second, int second_bytes) {
  poison_shared(first_bytes + second_bytes + 1024);
  copy_bytes(shared_memory, first, first_bytes);
  copy_bytes(shared_memory + first_bytes, second, second_bytes);
  ptx::fence_async_proxy();
  __syncthreads();
}

template <int kCount, typename Value>
__device__ __forceinline__ void load_own(Value (&values)[kCount], const Value* from) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = from[threadIdx.x * kCount + i];
}

template <int kCount>
__device__ __forceinline__ void store_own(float* to, const float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) to[threadIdx.x * kCount + i] = values[i];
}

// d = a b, + c when `accumulate`.
template <typename Element, int kN, int kK, Source kSource, Major kMajor>
__device__ __forceinline__ void multiply(const uint4* a_tile, const uint32_t* a_fragments, const uint4* b_tile,
                                         const float* c, float* d, int accumulate) {
  using B = SharedTileB<kN, kK, kMajor>;
  using Multiply = ptx::Wgmma<Element, kN, kMajor == Major::kMN>;
  constexpr int kBytesA = kSource == Source::kShared ? 2 * kRowsA * kK : 0;
  fill_shared(a_tile, kBytesA, b_tile, B::kBytes);
  const uint32_t shared = ptx::shared_address(shared_memory);
  const auto b = B::descriptor(shared + kBytesA);
  float d_[kN / 2];
  load_own(d_, c);
  if constexpr (kSource == Source::kShared) {
    using A = SharedTile<kRowsA, kK>;
    const auto a = sm90::Descriptor<A>::k_major(shared + threadIdx.x / 128 * 64 * A::kPanelBytes);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kK / 16; ++step) {
      Multiply::shared(d_, a.columns(step, kRowsA), B::at(b, step), step != 0 || accumulate);
    }
  } else {
    uint32_t a[kK / 4];
    load_own(a, a_fragments);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kK / 16; ++step) Multiply::registers(d_, a + 4 * step, B::at(b, step));
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>();
  ptx::wgmma_pin(d_);
  store_own(d, d_);
}

}  // namespace fa3::test

using namespace fa3;
using namespace fa3::test;

#define FA3_WGMMA(N, DTYPE, ELEMENT, SOURCE, MAJOR, K)                                                          \
  extern "C" __global__ void __launch_bounds__(256, 1) wgmma_##DTYPE##_##SOURCE##_##MAJOR##_n##N##_k##K(        \
      const uint4* a_tile, const uint32_t* a_fragments, const uint4* b_tile, const float* c, float* d,          \
      int accumulate) {                                                                                         \
    multiply<ELEMENT, N, K, Source::k##SOURCE, Major::k##MAJOR>(a_tile, a_fragments, b_tile, c, d, accumulate); \
  }
#define FA3_ODD(...)          \
  FA3_WGMMA(16, __VA_ARGS__)  \
  FA3_WGMMA(48, __VA_ARGS__)  \
  FA3_WGMMA(80, __VA_ARGS__)  \
  FA3_WGMMA(112, __VA_ARGS__) \
  FA3_WGMMA(144, __VA_ARGS__) FA3_WGMMA(176, __VA_ARGS__) FA3_WGMMA(208, __VA_ARGS__) FA3_WGMMA(240, __VA_ARGS__)
#define FA3_EVEN(...)         \
  FA3_WGMMA(32, __VA_ARGS__)  \
  FA3_WGMMA(64, __VA_ARGS__)  \
  FA3_WGMMA(96, __VA_ARGS__)  \
  FA3_WGMMA(128, __VA_ARGS__) \
  FA3_WGMMA(160, __VA_ARGS__) FA3_WGMMA(192, __VA_ARGS__) FA3_WGMMA(224, __VA_ARGS__) FA3_WGMMA(256, __VA_ARGS__)

// S = Q K^T: swizzles of 128 bytes in two panels, of 64 bytes in three.
FA3_ODD(bf16, Bf16, Shared, K, 128)
FA3_EVEN(bf16, Bf16, Shared, K, 128)
FA3_ODD(fp16, Fp16, Shared, K, 96)
FA3_EVEN(fp16, Fp16, Shared, K, 96)
// O += P V, where N is head_dim: a multiple of 64 has a swizzle of 128 bytes, another of 32 one of 64 bytes.
FA3_EVEN(bf16, Bf16, Registers, MN, 128)
FA3_EVEN(fp16, Fp16, Registers, MN, 80)
// No kernel's, but the layer has them: A in registers for the other N, and an MN-major B beside A in shared memory.
FA3_ODD(bf16, Bf16, Registers, K, 64)
FA3_ODD(fp16, Fp16, Registers, K, 96)
FA3_WGMMA(64, bf16, Bf16, Shared, MN, 64)
FA3_WGMMA(96, fp16, Fp16, Shared, MN, 64)

// The forward kernel's pattern: Q K^T is read while P V of the group after may still be running.
extern "C" __global__ void __launch_bounds__(256, 1)
    wgmma_two_groups(const uint4* q_tile, const uint4* kv_tile, const uint32_t* p_fragments, float* s, float* o) {
  constexpr int kN = 128, kD = 64;
  using Q = SharedTile<kRowsA, kD>;
  using K = SharedTileB<kN, kD, Major::kK>;
  using V = SharedTileB<kD, kN, Major::kMN>;
  fill_shared(q_tile, Q::kBytes, kv_tile, K::kBytes + V::kBytes);
  const uint32_t shared = ptx::shared_address(shared_memory);
  const auto q = sm90::Descriptor<Q>::k_major(shared + threadIdx.x / 128 * 64 * Q::kPanelBytes);
  const auto k = K::descriptor(shared + Q::kBytes);
  const auto v = V::descriptor(shared + Q::kBytes + K::kBytes);
  uint32_t p[kN / 4];
  load_own(p, p_fragments);
  float s_[kN / 2], o_[kD / 2];
  ptx::wgmma_clear(o_);
  ptx::wgmma_fence();
#pragma unroll
  for (int step = 0; step < kD / 16; ++step) {
    ptx::Wgmma<Bf16, kN, 0>::shared(s_, q.columns(step, kRowsA), K::at(k, step), step != 0);
  }
  ptx::wgmma_commit();
#pragma unroll
  for (int step = 0; step < kN / 16; ++step) {
    ptx::Wgmma<Bf16, kD, 1>::registers(o_, p + 4 * step, V::at(v, step));
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<1>();
  ptx::wgmma_pin(s_);
  store_own(s, s_);
  ptx::wgmma_wait<0>();
  ptx::wgmma_pin(o_);
  store_own(o, o_);
}

// Descriptors of 80 rows by 128 and by 96 columns: steps 0, 1 and the first of the next panel; rows by step.
template <int kColumns>
__device__ void write_descriptors(uint32_t tile, uint64_t* out) {
  using T = SharedTile<80, kColumns>;
  const auto k_major = sm90::Descriptor<T>::k_major(tile);
  const auto mn_major = sm90::Descriptor<T>::mn_major(tile);
  const uint64_t bits[] = {k_major.columns(0, 80), k_major.columns(1, 80), k_major.columns(T::kPanel / 16, 80),
                           mn_major.rows(0), mn_major.rows(1)};
  for (int i = 0; i < 5; ++i) out[i] = bits[i];
}
extern "C" __global__ void descriptors(int tile, uint64_t* out) {
  write_descriptors<128>(tile, out);
  write_descriptors<96>(tile, out + 5);
}

extern "C" __global__ void clear_chosen(const int* chosen, float* values) {
  float value = values[threadIdx.x];
  ptx::clear_if(chosen[threadIdx.x] != 0, value);
  values[threadIdx.x] = value;
}
