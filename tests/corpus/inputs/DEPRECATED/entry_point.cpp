// corpus: warn
#include <cuda_runtime_api.h>

void* find() {
  void* function = nullptr;
  cudaGetDriverEntryPoint("cuInit", &function, cudaEnableDefault, nullptr);
  return function;
}
