# corpus: break
# at: 8
# witness: #include <cuda_runtime_api.h>
# witness: cudaError_t wait() { return cudaThreadSynchronize(); }

cdef extern from "cuda_runtime_api.h":
    ctypedef int cudaError_t
    cudaError_t cudaThreadSynchronize()
    cudaError_t cudaDeviceSynchronize()
