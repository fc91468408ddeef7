#include "host/launch.h"

#include "host/error.h"

namespace fa3 {

void launch(const Device& device, CUkernel kernel, const char* name, const Launch& what, CUstream stream) {
  const Driver& driver = Driver::get();
  CUlaunchConfig config{};
  config.gridDimX = static_cast<unsigned>(what.grid);
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = static_cast<unsigned>(what.threads);
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = static_cast<unsigned>(what.shared_bytes);
  config.hStream = stream;
  CUlaunchAttribute early{};
  early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  early.value.programmaticStreamSerializationAllowed = 1;
  constexpr int32_t kInGraphs = 12030;  // the first driver that captures such a launch
  if (what.starts_early && driver.version >= kInGraphs) config.attrs = &early, config.numAttrs = 1;
  void* arguments[] = {what.argument};
  // Every CUDA API that takes a CUfunction to launch takes a CUkernel.
  const CUresult result = driver.cuLaunchKernelEx(&config, reinterpret_cast<CUfunction>(kernel), arguments, nullptr);
  if (result != CUDA_SUCCESS) {
    fail(FA3_DRIVER_ERROR, "launching ", name, " on ", device.name, " failed: ", driver.describe(result),
         ". If it names an earlier fault, run with CUDA_LAUNCH_BLOCKING=1 to find where it comes from");
  }
}

}  // namespace fa3
