// corpus: clean
#include <cuda_runtime.h>

// In C++ both toolkits have this overload.
void prefetch(void* memory, size_t bytes, cudaMemLocation place, cudaStream_t stream) {
  cudaMemPrefetchAsync(memory, bytes, place, 0, stream);
}
