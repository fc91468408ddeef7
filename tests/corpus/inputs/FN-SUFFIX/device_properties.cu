// corpus: break
#include <cuda_runtime.h>

int processors() {
  cudaDeviceProp properties;
  cudaGetDeviceProperties_v2(&properties, 0);
  return properties.multiProcessorCount;
}
