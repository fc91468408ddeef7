// corpus: latent
// with: -DWAIT_FOR_ALL
#include <cuda_runtime.h>

void wait(cudaStream_t stream) {
#ifdef WAIT_FOR_ALL
  cudaThreadSynchronize();
#else
  cudaStreamSynchronize(stream);
#endif
}
