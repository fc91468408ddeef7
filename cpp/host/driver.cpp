#include "host/driver.h"

#include <dlfcn.h>

#include <array>
#include <memory>
#include <mutex>

#include "host/error.h"

namespace fa3 {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

// cuda.h renames functions to their newest version (cuCtxPushCurrent_v2): expand before making the symbol's name.
#define FA3_STRING(text) #text
#define FA3_SYMBOL(name) FA3_STRING(name)

template <typename Function>
void load(void* library, Function& function, const char* symbol) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (function == nullptr) {
    fail(FA3_DRIVER_ERROR, "the NVIDIA driver has no ", symbol, ", so it is older than CUDA 12.0; update the driver");
  }
}

Driver load_driver() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(FA3_DRIVER_ERROR, "no NVIDIA driver: ", dlerror(),
         ". Install the driver, or run where a GPU is visible (in a container: with the NVIDIA runtime)");
  }
  Driver driver;
#define FA3_LOAD(name) load(library, driver.name, FA3_SYMBOL(name));
  FA3_DRIVER_FUNCTIONS(FA3_LOAD)
#undef FA3_LOAD
  driver.check(driver.cuInit(0), "cuInit");
  driver.check(driver.cuDriverGetVersion(&driver.version), "cuDriverGetVersion");
  return driver;
}

int32_t attribute(const Driver& driver, CUdevice device, CUdevice_attribute which) {
  int value = 0;
  driver.check(driver.cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

std::unique_ptr<const Device> query_device(int32_t ordinal) {
  const Driver& driver = Driver::get();
  int count = 0;
  driver.check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= count) {
    fail(FA3_DRIVER_ERROR, "no CUDA device ", ordinal, ": the driver shows ", count);
  }
  auto device = std::make_unique<Device>();
  device->ordinal = ordinal;
  driver.check(driver.cuDeviceGet(&device->handle, ordinal), "cuDeviceGet");
  std::array<char, 256> name{};
  driver.check(driver.cuDeviceGetName(name.data(), static_cast<int>(name.size()), device->handle), "cuDeviceGetName");
  device->name = name.data();
  device->capability = 10 * attribute(driver, device->handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                       attribute(driver, device->handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  device->sms = attribute(driver, device->handle, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  device->sm_threads = attribute(driver, device->handle, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  device->sm_shared_bytes = attribute(driver, device->handle, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  return device;
}

// Retained once and never released: torch holds the same context for the life of the process.
CUcontext primary_context(const Device& device) {
  static std::mutex mutex;
  static std::array<CUcontext, kMaxDevices> contexts{};
  const std::lock_guard lock(mutex);
  CUcontext& context = contexts[device.ordinal];
  if (context == nullptr) {
    const Driver& driver = Driver::get();
    driver.check(driver.cuDevicePrimaryCtxRetain(&context, device.handle), "cuDevicePrimaryCtxRetain");
  }
  return context;
}

}  // namespace

const Driver& Driver::get() {
  static const Driver driver = load_driver();
  return driver;
}

std::string Driver::describe(CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS) name = "an unknown CUDA error";
  if (cuGetErrorString(result, &text) != CUDA_SUCCESS) text = "no description";
  return concat(name, " (", static_cast<int>(result), "): ", text);
}

void Driver::check(CUresult result, const char* call) const {
  if (result != CUDA_SUCCESS) fail(FA3_DRIVER_ERROR, "the NVIDIA driver refused ", call, ": ", describe(result));
}

const Device& Device::get(int32_t ordinal) {
  static std::mutex mutex;
  static std::array<std::unique_ptr<const Device>, kMaxDevices> devices;
  if (ordinal < 0 || ordinal >= kMaxDevices) {
    fail(FA3_DRIVER_ERROR, "no CUDA device ", ordinal);
  }
  const std::lock_guard lock(mutex);
  if (devices[ordinal] == nullptr) devices[ordinal] = query_device(ordinal);
  return *devices[ordinal];
}

ContextGuard::ContextGuard(const Device& device) {
  const Driver& driver = Driver::get();
  CUdevice current = -1;
  if (driver.cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device.handle) return;
  driver.check(driver.cuCtxPushCurrent(primary_context(device)), "cuCtxPushCurrent");
  pushed_ = true;
}

ContextGuard::~ContextGuard() {
  CUcontext popped = nullptr;
  if (pushed_) Driver::get().cuCtxPopCurrent(&popped);
}

}  // namespace fa3
