// corpus: break
#include <thrust/sort.h>

auto pair() { return thrust::make_tuple(1, 2); }
