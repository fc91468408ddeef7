// corpus: guarded
#include <cub/cub.cuh>
#if CUB_VERSION >= 300000
#include <cuda/std/functional>
using Operator = cuda::std::plus<>;
#else
using Operator = cub::Sum;
#endif
