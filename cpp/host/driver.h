// The NVIDIA driver, found at run time: nothing links libcuda, so the library loads on a machine without one.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>

namespace fa3 {

// Every entry point used, with cuda.h's own types. All exist since CUDA 12.0.
#define FA3_DRIVER_FUNCTIONS(F)        \
  F(cuInit)                            \
  F(cuDriverGetVersion)                \
  F(cuGetErrorName)                    \
  F(cuGetErrorString)                  \
  F(cuDeviceGet)                       \
  F(cuDeviceGetCount)                  \
  F(cuDeviceGetName)                   \
  F(cuDeviceGetAttribute)              \
  F(cuDevicePrimaryCtxRetain)          \
  F(cuCtxGetDevice)                    \
  F(cuCtxPushCurrent)                  \
  F(cuCtxPopCurrent)                   \
  F(cuStreamGetId)                     \
  F(cuStreamIsCapturing)               \
  F(cuThreadExchangeStreamCaptureMode) \
  F(cuTensorMapEncodeTiled)            \
  F(cuLibraryLoadData)                 \
  F(cuLibraryGetKernel)                \
  F(cuKernelSetAttribute)              \
  F(cuKernelGetAttribute)              \
  F(cuKernelGetFunction)               \
  F(cuLaunchKernelEx)

inline constexpr int32_t kMaxDevices = 64;  // more than any host has

struct Driver {
#define FA3_MEMBER(name) decltype(&::name) name = nullptr;
  FA3_DRIVER_FUNCTIONS(FA3_MEMBER)
#undef FA3_MEMBER

  int32_t version = 0;  // 1000 * major + 10 * minor

  // Initialised at first use. Throws FA3_DRIVER_ERROR naming what is missing; a later call tries again.
  static const Driver& get();

  // "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected".
  std::string describe(CUresult result) const;
  // Throws FA3_DRIVER_ERROR unless the call succeeded.
  void check(CUresult result, const char* call) const;
};

struct Device {
  CUdevice handle;
  int32_t ordinal;
  int32_t capability;  // 10 * major + minor
  int32_t sms;
  int32_t sm_threads, sm_shared_bytes;
  std::string name;

  // Cached; the ordinal is that of torch and of CUDA_VISIBLE_DEVICES.
  static const Device& get(int32_t ordinal);
};

// Makes a context of the device current for a scope. Torch makes the primary context current only in threads that have
// called the runtime; a context of that device which is current already (a green context, say) is left alone.
class ContextGuard {
 public:
  explicit ContextGuard(const Device& device);
  ~ContextGuard();
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

 private:
  bool pushed_ = false;
};

}  // namespace fa3
