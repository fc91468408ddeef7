// corpus: break
#include <cuda_runtime.h>
#define CHECK(call) \
  if ((call) != cudaSuccess) return false

bool reset() {
  CHECK(cudaThreadExit());
  CHECK(cudaDeviceReset());
  return true;
}
