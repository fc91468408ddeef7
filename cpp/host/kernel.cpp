#include <fstream>
#include <iterator>

#include "host/build.h"
#include "host/error.h"

namespace fa3 {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file || bytes.empty())
    fail(FA3_BUILD_ERROR, "can't read the fatbin ", path, "; rebuild its cell or reinstall the wheel");
  return bytes;
}

// Loading allocates, which a capture in global mode forbids; nothing that it does belongs into the graph.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace

Kernel::Kernel(const Fa3Variant& variant, std::string build)
    : name_(variant.name), fatbin_(variant.fatbin), build_(std::move(build)), variant_(variant) {
  variant_.name = name_.c_str();
  variant_.fatbin = fatbin_.c_str();
}

CUkernel Kernel::on(const Device& device) {
  const uint64_t bit = uint64_t{1} << device.ordinal;
  if ((ready_.load(std::memory_order_acquire) & bit) == 0) {
    const std::lock_guard lock(mutex_);
    if ((ready_.load(std::memory_order_relaxed) & bit) == 0) {
      load(Driver::get(), device);
      ready_.fetch_or(bit, std::memory_order_release);
    }
  }
  return kernel_;
}

void Kernel::load(const Driver& driver, const Device& device) {
  const RelaxedCapture relaxed(driver);
  const auto require = [&](CUresult result, const char* call) {
    if (result != CUDA_SUCCESS) fail_to_load(driver, device, result, call);
  };
  if (kernel_ == nullptr) {
    const std::string bytes = read_file(fatbin_);
    CUlibrary library = nullptr;
    require(driver.cuLibraryLoadData(&library, bytes.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
            "cuLibraryLoadData");
    // For every device; the library stays loaded.
    const auto get = [&](CUkernel& kernel, const std::string& name) {
      require(driver.cuLibraryGetKernel(&kernel, library, name.c_str()), "cuLibraryGetKernel");
    };
    if (variant_.splits_keys) {
      get(combine_, name_ + "_combine");
      get(append_, name_ + "_append");
    }
    get(kernel_, name_);
  }
  require(driver.cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, variant_.dynamic_shared_bytes,
                                      kernel_, device.handle),
          "cuKernelSetAttribute");
  // What was compiled for less, a twin's code say, has no such instruction (ptx/grid_order.cuh), whatever the device.
  int ptx_version = 0;
  require(driver.cuKernelGetAttribute(&ptx_version, CU_FUNC_ATTRIBUTE_PTX_VERSION, kernel_, device.handle),
          "cuKernelGetAttribute");
  waits_ = ptx_version >= 90 && (variant_.tma_columns > 0 || variant_.splits_keys);
  // The driver loads lazily, at the latest here: so errors carry a name and the first launch does nothing but launch.
  for (CUkernel kernel : {kernel_, combine_, append_}) {
    CUfunction function = nullptr;
    if (kernel != nullptr) require(driver.cuKernelGetFunction(&function, kernel), "cuKernelGetFunction");
  }
}

void Kernel::fail_to_load(const Driver& driver, const Device& device, CUresult result, const char* call) const {
  std::string advice;
  switch (result) {
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
      advice = concat("its PTX is newer than the driver's compiler knows (the driver supports CUDA ",
                      driver.version / 1000, ".", driver.version % 1000 / 10,
                      "). Update the driver, or use a build by an older toolkit or with SASS for this GPU");
      break;
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
      advice = "it holds no code for this GPU, whatever its manifest says. Rebuild the cell";
      break;
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
      advice =
          "the driver's PTX compiler (libnvidia-ptxjitcompiler) is not installed. Install it, or use a build with SASS for this GPU";
      break;
    case CUDA_ERROR_NOT_FOUND:
      advice = concat(fatbin_, " holds no kernel of that name. Rebuild the cell");
      break;
    default:
      advice = concat(call, " of ", fatbin_, " failed");
  }
  fail(FA3_DRIVER_ERROR, "can't load ", name_, " of build ", build_, " on ", device.name, " (compute capability ",
       capability_text(device.capability), "): ", advice, " [", driver.describe(result), "]");
}

}  // namespace fa3
