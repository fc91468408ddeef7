// cudaGetDeviceProperties of the other toolkit's library, with the struct of this one's headers.
// The argument is that library's path.
#include <cstring>
#include <vector>

#include "probe.h"

namespace {

using Function = cudaError_t (*)(void*, int);
constexpr size_t kRoom = 1 << 16;  // far beyond either struct

// How many bytes a library writes: the last that changes in either of two fillings.
size_t written(Function get) {
  size_t last = 0;
  for (const int filling : {0x5a, 0xa5}) {
    std::vector<unsigned char> bytes(kRoom, static_cast<unsigned char>(filling));
    REQUIRE(get(bytes.data(), 0));
    for (size_t index = last; index < kRoom; ++index)
      if (bytes[index] != filling) last = index + 1;
  }
  return last;
}

cudaDeviceProp properties(Function get) {
  std::vector<unsigned char> bytes(kRoom);
  REQUIRE(get(bytes.data(), 0));
  cudaDeviceProp read;
  std::memcpy(&read, bytes.data(), sizeof read);
  return read;
}

// Fields that the structs of both toolkits have, and that hold different values in the two readings.
std::string misread(const cudaDeviceProp& right, const cudaDeviceProp& other) {
  std::string fields;
#define COMPARE(field)                                                  \
  if (std::memcmp(&right.field, &other.field, sizeof right.field) != 0) \
  fields += (fields.empty() ? "" : " ") + std::string(#field)
  COMPARE(name);
  COMPARE(totalGlobalMem);
  COMPARE(sharedMemPerBlock);
  COMPARE(warpSize);
  COMPARE(maxThreadsPerBlock);
  COMPARE(major);
  COMPARE(minor);
  COMPARE(multiProcessorCount);
  COMPARE(memoryBusWidth);
  COMPARE(l2CacheSize);
  COMPARE(maxThreadsPerMultiProcessor);
  COMPARE(sharedMemPerMultiprocessor);
  COMPARE(regsPerMultiprocessor);
  COMPARE(managedMemory);
  COMPARE(concurrentManagedAccess);
  COMPARE(cooperativeLaunch);
  COMPARE(sharedMemPerBlockOptin);
  COMPARE(memoryPoolsSupported);
#undef COMPARE
  return fields.empty() ? "none" : fields;
}

}  // namespace

int main(int count, char** arguments) {
  probe::require_device();
  if (count != 2) probe::cannot_run("it was not told where the other toolkit's library is");
  void* const library = dlopen(arguments[1], RTLD_NOW);
  if (library == nullptr) probe::cannot_run("the other toolkit's library cannot be loaded");
  const auto own = [](void* room, int device) {
    return cudaGetDeviceProperties(static_cast<cudaDeviceProp*>(room), device);
  };
  const cudaDeviceProp right = properties(own);

  probe::Record record;
  record.observe("symbol behind cudaGetDeviceProperties", PROBE_TEXT(cudaGetDeviceProperties));
  record.observe("size of the struct", std::to_string(sizeof(cudaDeviceProp)));
  record.observe("bytes that this library writes", std::to_string(written(own)));
  for (const char* name : {"cudaGetDeviceProperties", "cudaGetDeviceProperties_v2"}) {
    const auto other = reinterpret_cast<Function>(dlsym(library, name));
    const std::string item = std::string(name) + " of the other library";
    if (other == nullptr) {
      record.observe(item, "is not there");
      continue;
    }
    record.observe(item + ": bytes written", std::to_string(written(other)));
    record.observe(item + ": fields misread", misread(right, properties(other)));
  }
  record.print();
}
