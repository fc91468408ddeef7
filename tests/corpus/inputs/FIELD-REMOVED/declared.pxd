# corpus: break
# at: 8
# witness: #include <cuda_runtime_api.h>
# witness: int rate(struct cudaDeviceProp p) { return p.memoryClockRate; }

cdef extern from "cuda_runtime_api.h":
    cdef struct cudaDeviceProp:
        int memoryClockRate
        int multiProcessorCount
