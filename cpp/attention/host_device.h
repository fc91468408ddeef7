// Functions marked FA3_HOST_DEVICE compile as plain C++ too, so that index logic is tested on a CPU.
#pragma once

#ifdef __CUDACC__
#define FA3_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define FA3_HOST_DEVICE inline
#endif
