// corpus: break
#include <cub/cub.cuh>

void reduce(void* room, size_t& bytes, const int* in, int* out, int n, cudaStream_t stream) {
  cub::DeviceReduce::Sum(room, bytes, in, out, n, stream, true);
  cub::DeviceReduce::Sum(room, bytes, in, out, n, stream);
}
