// corpus: silent
// at: 9
// witness: #define TEXT_OF(name) #name
// witness: #define TEXT(name) TEXT_OF(name)
// witness: static_assert(sizeof(TEXT(cuDeviceGetUuid)) == sizeof("cuDeviceGetUuid"), "");
#include <cuda.h>

CUresult identify(CUuuid* uuid, CUdevice device) {
  return cuDeviceGetUuid(uuid, device);
}
