// corpus: break
#include <cuda_runtime.h>

void prefetch(void* memory, size_t bytes, cudaStream_t stream) {
  cudaMemPrefetchAsync(memory, bytes, 0, stream);
  cudaMemAdvise(memory, bytes, cudaMemAdviseSetReadMostly, 0);
}
