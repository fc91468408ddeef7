// corpus: clean
#include <thrust/sort.h>
#include <thrust/tuple.h>

auto pair() { return thrust::make_tuple(1, 2); }
