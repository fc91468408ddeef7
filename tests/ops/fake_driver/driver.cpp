// A libcuda.so.1 for a machine without one: it records what the host library asks of it and launches nothing.
// The test's environment says what kind of GPU it plays and which call fails.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "attention/tma_params.h"

namespace {

std::string log_text;
thread_local int current_device = -1;

template <typename... Values>
void record(const char* format, Values... values) {
  char line[512];
  std::snprintf(line, sizeof line, format, values...);
  log_text += line;
  log_text += '\n';
}

long setting(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atol(text);
}

// FAKE_FAIL="cuLibraryLoadData" FAKE_ERROR=222 makes that call fail so.
int outcome(const char* call) {
  const char* failing = std::getenv("FAKE_FAIL");
  return failing != nullptr && std::strcmp(failing, call) == 0 ? static_cast<int>(setting("FAKE_ERROR", 999)) : 0;
}

struct LaunchAttribute {  // CUlaunchAttribute
  int id;
  alignas(8) int value;
};

struct LaunchConfig {  // CUlaunchConfig
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  const LaunchAttribute* attributes;
  unsigned num_attributes;
};

}  // namespace

extern "C" {

const char* fake_log() {
  return log_text.c_str();
}

int cuInit(unsigned) {
  return outcome("cuInit");
}
int cuDriverGetVersion(int* version) {
  return *version = static_cast<int>(setting("FAKE_VERSION", 13000)), 0;
}
int cuGetErrorName(int error, const char** text) {
  return *text = error == 222 ? "FAKE_PTX" : "FAKE_ERROR", 0;
}
int cuGetErrorString(int, const char** text) {
  return *text = "as the test asked", 0;
}
int cuDeviceGet(int* device, int ordinal) {
  return *device = 100 + ordinal, 0;
}
int cuDeviceGetCount(int* count) {
  return *count = 2, 0;
}
int cuDeviceGetName(char* name, int bytes, int) {
  return std::snprintf(name, bytes, "Fake GPU"), 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  const long capability = setting("FAKE_CAPABILITY", 90);
  switch (attribute) {
    case 16:
      return *value = 132, 0;  // multiprocessors
    case 39:
      return *value = 2048, 0;  // threads of one
    case 81:
      return *value = 228 << 10, 0;  // shared memory of one
    case 75:
      return *value = static_cast<int>(capability / 10), 0;
    case 76:
      return *value = static_cast<int>(capability % 10), 0;
    default:
      return *value = 50 << 20, 0;
  }
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  record("retain %d", device);
  return *context = reinterpret_cast<void*>(static_cast<intptr_t>(device)), 0;
}
int cuCtxGetDevice(int* device) {
  return current_device < 0 ? 201 : (*device = current_device, 0);
}
int cuCtxPushCurrent_v2(void* context) {
  current_device = static_cast<int>(reinterpret_cast<intptr_t>(context));
  record("push %d", current_device);
  return 0;
}
int cuCtxPopCurrent_v2(void**) {
  return record("pop"), current_device = -1, 0;
}
// A stream's id is its address; those of odd address are being captured.
int cuStreamGetId(void* stream, unsigned long long* id) {
  return *id = reinterpret_cast<uintptr_t>(stream), outcome("cuStreamGetId");
}
int cuStreamIsCapturing(void* stream, int* status) {
  return *status = reinterpret_cast<uintptr_t>(stream) % 2, outcome("cuStreamIsCapturing");
}
int cuTensorMapEncodeTiled(fa3::TensorMap* map, int dtype, unsigned rank, void* data, const uint64_t* sizes,
                           const uint64_t* strides, const unsigned* box, const unsigned* steps, int interleave,
                           int swizzle, int promotion, int fill) {
  record("map %p dtype %d rank %u sizes %lu %lu %lu %lu strides %lu %lu %lu box %u %u %u %u steps %u %u %u %u", data,
         dtype, rank, sizes[0], sizes[1], sizes[2], sizes[3], strides[0], strides[1], strides[2], box[0], box[1],
         box[2], box[3], steps[0], steps[1], steps[2], steps[3]);
  if (interleave != 0 || swizzle != (box[0] == 64 ? 3 : 2) || promotion != 3 || fill != 0)
    record("map of another kind");
  map->opaque[0] = reinterpret_cast<uintptr_t>(data);
  map->opaque[1] = box[1];
  return outcome("cuTensorMapEncodeTiled");
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
  return record("capture mode %d", *mode), *mode = 0, 0;
}
int cuLibraryLoadData(void** library, const void* data, void*, void*, unsigned, void*, void*, unsigned) {
  record("load %s", static_cast<const char*>(data));
  return *library = reinterpret_cast<void*>(7), outcome("cuLibraryLoadData");
}
int cuLibraryGetKernel(void** kernel, void*, const char* name) {
  record("kernel %s", name);
  return *kernel = reinterpret_cast<void*>(8), outcome("cuLibraryGetKernel");
}
int cuKernelSetAttribute(int attribute, int value, void*, int device) {
  record("attribute %d = %d on %d", attribute, value, device);
  return outcome("cuKernelSetAttribute");
}
int cuKernelGetAttribute(int* value, int, void*, int) {
  return *value = static_cast<int>(setting("FAKE_PTX_VERSION", 90)), outcome("cuKernelGetAttribute");
}
int cuKernelGetFunction(void** function, void*) {
  return *function = reinterpret_cast<void*>(9), outcome("cuKernelGetFunction");
}
int cuLaunchKernelEx(const LaunchConfig* c, void* kernel, void** arguments, void**) {
  // FAKE_TMA: the kernel takes maps, told here by what cuTensorMapEncodeTiled left in them.
  const bool by_tma = setting("FAKE_TMA", 0) != 0;
  const auto* tma = static_cast<const fa3::TmaForwardParams*>(arguments[0]);
  const auto* params = by_tma ? &tma->forward : static_cast<const fa3::ForwardParams*>(arguments[0]);
  record("launch %p grid %u %u %u block %u %u %u shared %u stream %p q %p in context of %d", kernel, c->grid[0],
         c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->shared_bytes, c->stream, params->q,
         current_device);
  for (unsigned i = 0; i < c->num_attributes; ++i) {
    record("with attribute %d = %d", c->attributes[i].id, c->attributes[i].value);
  }
  if (by_tma) {
    const auto* q = tma->q.opaque;
    const auto* k = tma->k.opaque;
    const auto* v = tma->v.opaque;
    const auto* out = tma->out.opaque;
    record("maps %lx:%lu %lx:%lu %lx:%lu %lx:%lu ticket %d", q[0], q[1], k[0], k[1], v[0], v[1], out[0], out[1],
           params->ticket);
    if (reinterpret_cast<uintptr_t>(tma) % 64 != 0) record("misaligned");
  }
  return outcome("cuLaunchKernelEx");
}

}  // extern "C"
