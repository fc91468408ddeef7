// corpus: break
#include <cuda_runtime.h>

size_t room(int devices) {
  return devices * sizeof(cudaLaunchParams);
}
