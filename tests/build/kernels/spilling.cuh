// Keeps 64 values alive across a barrier, where the launch bounds leave 32 registers.
#define LAUNCH_BOUNDS __launch_bounds__(1024, 2)
__device__ void body(const fa3::ForwardParams& params) {
  float values[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) values[i] = params.lse[threadIdx.x + 1024 * i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; ++i) params.lse[1024 * i + 1023 - threadIdx.x] = values[i] * values[63 - i];
}
