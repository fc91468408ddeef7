// Uses a stream of one context while another context is current.
#include "kernels.h"
#include "probe.h"

int main() {
  probe::require_device();
  probe::load_kernels();
  cudaStream_t stream;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 1 << 20));

  CUdevice device = 0;
  REQUIRE(DRIVER(cuDeviceGet)(&device, 0));
  CUcontext other = nullptr;
#if CUDA_VERSION >= 13000
  REQUIRE(DRIVER(cuCtxCreate)(&other, nullptr, 0, device));
#else
  REQUIRE(DRIVER(cuCtxCreate)(&other, 0, device));
#endif
  REQUIRE(DRIVER(cuCtxSetCurrent)(other));
  probe::load_kernels();
  cudaEvent_t event;
  REQUIRE(cudaEventCreate(&event));

  probe::Record record;
  const auto observe = [&](const char* call, auto result) {
    record.observe(call, probe::name_of(result));
    cudaGetLastError();
  };
  probe::keep_busy(stream, 1);
  observe("kernel launch", cudaGetLastError());
  observe("cudaMemsetAsync of the stream's memory", cudaMemsetAsync(memory, 0, 1 << 20, stream));
  observe("cuMemsetD8Async of the stream's memory",
          DRIVER(cuMemsetD8Async)(reinterpret_cast<CUdeviceptr>(memory), 0, 1 << 20, stream));
  observe("cudaEventRecord of the current context's event", cudaEventRecord(event, stream));
  observe("cuEventRecord of the current context's event", DRIVER(cuEventRecord)(event, stream));
  observe("cudaStreamWaitEvent of the current context's event", cudaStreamWaitEvent(stream, event, 0));
  observe("cudaStreamSynchronize", cudaStreamSynchronize(stream));
  record.print();
}
