// corpus: clean
#include <cuda_runtime.h>

bool capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status;
  unsigned long long id;
  cudaStreamGetCaptureInfo(stream, &status, &id);
  return status == cudaStreamCaptureStatusActive;
}
