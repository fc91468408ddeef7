// corpus: clean
#include <thrust/complex.h>

thrust::complex<float> zero() { return {}; }
