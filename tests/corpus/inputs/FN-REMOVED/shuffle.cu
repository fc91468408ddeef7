// corpus: break
// at: 5
// documented: https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#warp-shuffle-functions
__global__ void sum(int* data) {
  data[threadIdx.x] += __shfl_down(data[threadIdx.x], 16);
  data[threadIdx.x] += __shfl_down_sync(0xffffffff, data[threadIdx.x], 8);
}
