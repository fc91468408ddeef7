// corpus: suppressed
#include <cuda_runtime.h>

void wait() {
  // fa3-migrate: ignore[FN-REMOVED] this file is built by 12.4 alone
  cudaThreadSynchronize();
}
