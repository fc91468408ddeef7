// corpus: silent
// at: 7
// witness: static_assert(CU_DEVICE_ATTRIBUTE_MAX == 135, "");
#include <cuda.h>

int last_attribute() {
  return CU_DEVICE_ATTRIBUTE_MAX - 1;
}
