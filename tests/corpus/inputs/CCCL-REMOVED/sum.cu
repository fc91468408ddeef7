// corpus: break
#include <cub/cub.cuh>

using Operator = cub::Sum;
