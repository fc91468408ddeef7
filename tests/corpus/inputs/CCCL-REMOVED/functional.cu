// corpus: break
#include <thrust/functional.h>

struct Square : thrust::unary_function<int, int> {
  __host__ __device__ int operator()(int x) const { return x * x; }
};
