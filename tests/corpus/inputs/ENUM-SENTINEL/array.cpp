// corpus: silent
// at: 6
// witness: static_assert(CU_DEVICE_ATTRIBUTE_MAX == 135, "");
#include <cuda.h>

int attributes[CU_DEVICE_ATTRIBUTE_MAX];
