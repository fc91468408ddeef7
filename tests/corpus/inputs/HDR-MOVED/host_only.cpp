// corpus: break
#include <thrust/complex.h>

thrust::complex<float> zero() { return {}; }
