// A libcuda.so.1 for a machine without one: it records what the host library asks of it and launches nothing.
// The test's environment says what kind of GPU it plays and which call fails.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

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

struct LaunchConfig {  // CUlaunchConfig
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
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
  return *version = 13000, 0;
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
  *value = static_cast<int>(attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : 50 << 20);
  return 0;
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
int cuKernelGetFunction(void** function, void*) {
  return *function = reinterpret_cast<void*>(9), outcome("cuKernelGetFunction");
}
int cuLaunchKernelEx(const LaunchConfig* c, void* kernel, void** arguments, void**) {
  const void* q = *static_cast<void**>(arguments[0]);
  record("launch %p grid %u %u %u block %u %u %u shared %u stream %p q %p in context of %d", kernel, c->grid[0],
         c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->shared_bytes, c->stream, q, current_device);
  return outcome("cuLaunchKernelEx");
}

}  // extern "C"
