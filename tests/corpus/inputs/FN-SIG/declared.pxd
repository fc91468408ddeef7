# corpus: break
# at: 12
# witness: #include <cuda.h>
# witness: CUresult make(CUcontext* context, CUdevice device) { return cuCtxCreate(context, 0, device); }

cdef extern from "cuda.h":
    ctypedef int CUdevice
    ctypedef int CUresult
    ctypedef struct CUctx_st:
        pass
    ctypedef CUctx_st* CUcontext
    CUresult cuCtxCreate(CUcontext* context, unsigned int flags, CUdevice device)
