// corpus: break
#include <cub/cub.cuh>

__host__ __device__ int least(int a, int b) { return CUB_MIN(a, b); }
