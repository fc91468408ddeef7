// corpus: break
#include <cuda_runtime_api.h>

int several(int device) {
  int value = 0;
  cudaDeviceGetAttribute(&value, cudaDevAttrCooperativeMultiDeviceLaunch, device);
  cudaDeviceGetAttribute(&value, cudaDevAttrCooperativeLaunch, device);
  return value;
}
