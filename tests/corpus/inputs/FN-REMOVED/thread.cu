// corpus: break
#include <cuda_runtime.h>

void wait() {
  cudaThreadSynchronize();
  cudaDeviceSynchronize();
}
