// corpus: clean
#include <cuda_runtime.h>

int processors() {
  cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, 0);
  return properties.multiProcessorCount;
}
