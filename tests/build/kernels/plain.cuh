// Copies a row through shared memory: enough code to count, nothing to remark on.
__device__ void body(const fa3::ForwardParams& params) {
  __shared__ float row[32];
  row[threadIdx.x] = params.lse[threadIdx.x] * SCALE;
  __syncthreads();
  for (int step = 0; step < params.batch; ++step) params.lse[32 * step + 31 - threadIdx.x] = row[threadIdx.x];
}
