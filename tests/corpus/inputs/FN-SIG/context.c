// corpus: break
#include <cuda.h>

CUresult make(CUcontext* context, CUdevice device) {
  return cuCtxCreate(context, 0, device);
}
