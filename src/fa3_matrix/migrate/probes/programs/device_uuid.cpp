// Which UUID cuDeviceGetUuid gives: in MIG mode the device's and the instance's differ. The UUID itself is not told.
#include <cstring>

#include "probe.h"

int main() {
  probe::require_device();
  CUdevice device = 0;
  REQUIRE(DRIVER(cuDeviceGet)(&device, 0));
  cudaDeviceProp properties;
  REQUIRE(cudaGetDeviceProperties(&properties, 0));
  using Function = decltype(&cuDeviceGetUuid);
  CUuuid named;
  CUuuid of_device;
  CUuuid of_instance;
  REQUIRE(DRIVER(cuDeviceGetUuid)(&named, device));
  REQUIRE(reinterpret_cast<Function>(probe::symbol("cuDeviceGetUuid"))(&of_device, device));
  REQUIRE(reinterpret_cast<Function>(probe::symbol("cuDeviceGetUuid_v2"))(&of_instance, device));
  const auto same = [&](const auto& other) { return std::memcmp(&named, &other, sizeof named) == 0 ? "yes" : "no"; };
  probe::Record record;
  record.observe("symbol behind cuDeviceGetUuid", PROBE_TEXT(cuDeviceGetUuid));
  record.observe("the device's", same(of_device));
  record.observe("the instance's", same(of_instance));
  record.observe("cudaDeviceProp's", same(properties.uuid));
  record.print();
}
