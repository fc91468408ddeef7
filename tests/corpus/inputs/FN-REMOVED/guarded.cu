// corpus: guarded
#include <cuda_runtime.h>

void wait() {
#if CUDART_VERSION >= 13000
  cudaDeviceSynchronize();
#else
  cudaThreadSynchronize();
#endif
}
