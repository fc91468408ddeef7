// corpus: break
#include <cuda_runtime.h>

double gigahertz(const cudaDeviceProp& properties) {
  return properties.clockRate * 1e-6;
}

int kilohertz() {
  int rate = 0;
  cudaDeviceGetAttribute(&rate, cudaDevAttrClockRate, 0);
  return rate;
}
