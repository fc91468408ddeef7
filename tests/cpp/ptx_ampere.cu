// One kernel a wrapper of the PTX layer that needs no more than Ampere. tests/gpu/ptx/test_ampere.py launches them and knows
// what is right.
#include <cstdint>

#include "ptx/cp_async.cuh"
#include "ptx/global.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/math.cuh"
#include "ptx/mma.cuh"
#include "ptx/schedule.cuh"
#include "ptx/shared.cuh"
#include "ptx/special_registers.cuh"
#include "ptx_test.cuh"

using namespace fa3;
using namespace fa3::test;

#define FA3_MATH(NAME)                                                      \
  extern "C" __global__ void math_##NAME(const float* x, float* y, int n) { \
    const int i = blockIdx.x * blockDim.x + threadIdx.x;                    \
    if (i < n) y[i] = ptx::NAME(x[i]);                                      \
  }
FA3_MATH(exp2_approx)
FA3_MATH(log2_approx)
FA3_MATH(reciprocal_approx)

#define FA3_PACK(DTYPE, ELEMENT)                                                                          \
  extern "C" __global__ void pack_##DTYPE(const float* low, const float* high, uint32_t* packed, int n) { \
    const int i = blockIdx.x * blockDim.x + threadIdx.x;                                                  \
    if (i < n) packed[i] = ptx::pack<ELEMENT>(low[i], high[i]);                                           \
  }
FA3_PACK(bf16, Bf16)
FA3_PACK(fp16, Fp16)

// One warp. Sums are written by the threads that keep_order lets pass.
extern "C" __global__ void in_order(const float* a, const float* b, const float* c, const int* ends, float* fma,
                                    float* sum) {
  const int i = threadIdx.x;
  fma[i] = ptx::fma_in_place(a[i], b[i], c[i]);
  ptx::keep_order(ends[i] != 0);
  sum[i] = ptx::add_in_place(a[i], b[i]);
}

// One warp. Each wrapper has a region of its own and meets plain C++ at its other end.
extern "C" __global__ void shared_accesses(const uint4* in, uint4* stored_16, uint4* loaded_16, uint4* stored_4) {
  constexpr int kRegion = 32 * 16;
  poison_shared(3 * kRegion);
  const int lane = threadIdx.x;
  uint4* const own = reinterpret_cast<uint4*>(shared_memory) + lane;
  const uint32_t address = ptx::shared_address(own);
  ptx::store_shared(address, in[lane]);
  own[32] = in[lane];
  ptx::store_shared(address + 2 * kRegion + 8, in[lane].z);  // its neighbours keep the poison
  __syncthreads();
  stored_16[lane] = own[0];
  loaded_16[lane] = ptx::load_shared_16(address + kRegion);
  stored_4[lane] = own[64];
}

// One warp.
extern "C" __global__ void global_stores(const uint2* in, const int* chosen, uint2* out, float* first) {
  const int lane = threadIdx.x;
  ptx::store_global_if(chosen[lane] != 0, ptx::opaque(out + lane), in[lane]);
  ptx::store_global_if(chosen[lane] != 0, ptx::opaque(first + lane), __uint_as_float(in[lane].x));
}

// One warp: 32 rows of eight 16-bit elements, whose order the lanes' addresses choose.
template <bool kTranspose>
__device__ void load_matrices(const uint4* rows, const int* order, uint4* fragments) {
  poison_shared(32 * 16);
  copy_bytes(shared_memory, rows, 32 * 16);
  __syncthreads();
  const uint32_t address = ptx::shared_address(shared_memory) + order[threadIdx.x] * 16;
  uint32_t d[4];
  if constexpr (kTranspose) {
    ptx::ldmatrix_x4_trans(d, address);
  } else {
    ptx::ldmatrix_x4(d, address);
  }
  fragments[threadIdx.x] = {d[0], d[1], d[2], d[3]};
}
extern "C" __global__ void ldmatrix_plain(const uint4* rows, const int* order, uint4* fragments) {
  load_matrices<false>(rows, order, fragments);
}
extern "C" __global__ void ldmatrix_transposed(const uint4* rows, const int* order, uint4* fragments) {
  load_matrices<true>(rows, order, fragments);
}

// One warp.
template <typename Element>
__device__ void multiply(const uint4* a, const uint2* b, const float4* c, float4* d) {
  const int lane = threadIdx.x;
  const uint32_t a_[4] = {a[lane].x, a[lane].y, a[lane].z, a[lane].w};
  const float c_[4] = {c[lane].x, c[lane].y, c[lane].z, c[lane].w};
  float d_[4];
  ptx::mma_m16n8k16<Element>(d_, a_, b[lane].x, b[lane].y, c_);
  d[lane] = {d_[0], d_[1], d_[2], d_[3]};
}
extern "C" __global__ void mma_bf16(const uint4* a, const uint2* b, const float4* c, float4* d) {
  multiply<Bf16>(a, b, c, d);
}
extern "C" __global__ void mma_fp16(const uint4* a, const uint2* b, const float4* c, float4* d) {
  multiply<Fp16>(a, b, c, d);
}

// One warp and two groups of copies: the older is read while the newer may still be in flight.
extern "C" __global__ void cp_async_groups(const uint4* const* sources, const int* valid, uint4* out) {
  poison_shared(64 * 16);
  const int lane = threadIdx.x;
  uint4* const own = reinterpret_cast<uint4*>(shared_memory) + lane;
  for (int group = 0; group < 2; ++group) {
    const int i = group * 32 + lane;
    ptx::cp_async_16(ptx::shared_address(own + group * 32), sources[i], valid[i]);
    ptx::cp_async_commit();
  }
  ptx::cp_async_wait<1>();
  out[lane] = own[0];
  ptx::cp_async_wait<0>();
  out[32 + lane] = own[32];
}

extern "C" __global__ void special_registers(uint32_t* index, int* uniform) {
  index[threadIdx.x] = ptx::thread_index();
  uniform[threadIdx.x] = ptx::warp_uniform(1000 + threadIdx.x);
}
