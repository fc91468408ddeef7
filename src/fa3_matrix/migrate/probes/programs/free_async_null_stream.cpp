// cuMemFreeAsync without a stream of one's own: with work pending, and without a current context.
#include "kernels.h"
#include "probe.h"

int main() {
  probe::require_device();
  probe::load_kernels();
  CUcontext context = nullptr;
  REQUIRE(DRIVER(cuCtxGetCurrent)(&context));
  CUstream stream = nullptr;
  REQUIRE(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  const auto allocated = [] {
    CUdeviceptr memory = 0;
    REQUIRE(DRIVER(cuMemAllocAsync)(&memory, 1 << 20, nullptr));
    REQUIRE(cudaDeviceSynchronize());
    return memory;
  };
  probe::Record record;

  CUdeviceptr memory = allocated();
  record.observe("null stream", probe::name_of(DRIVER(cuMemFreeAsync)(memory, nullptr)));

  memory = allocated();
  probe::keep_busy(nullptr);
  REQUIRE(cudaGetLastError());
  CUresult result = CUDA_SUCCESS;
  const double elapsed = probe::milliseconds([&] { result = DRIVER(cuMemFreeAsync)(memory, nullptr); });
  const bool pending = cudaStreamQuery(nullptr) == cudaErrorNotReady;
  record.observe("null stream, behind pending work",
                 probe::name_of(result) + (pending ? ", returns at once" : ", waits"));
  record.measure("cuMemFreeAsync behind pending work, ms", elapsed);

  for (const bool null_stream : {true, false}) {
    memory = allocated();
    REQUIRE(DRIVER(cuCtxSetCurrent)(nullptr));
    result = DRIVER(cuMemFreeAsync)(memory, null_stream ? nullptr : stream);
    REQUIRE(DRIVER(cuCtxSetCurrent)(context));
    record.observe(null_stream ? "null stream, no current context" : "a stream of its own, no current context",
                   probe::name_of(result));
  }
  record.print();
}
