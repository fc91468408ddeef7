// Frees memory while a kernel runs that does not use it.
#include <functional>

#include "kernels.h"
#include "probe.h"

int main() {
  probe::require_device();
  probe::load_kernels();
  cudaStream_t stream;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

  struct Case {
    const char* name;
    std::function<cudaError_t(void**)> allocate;
  };
  const Case cases[] = {
      {"cudaMalloc, 1 KiB", [](void** memory) { return cudaMalloc(memory, 1 << 10); }},
      {"cudaMalloc, 64 MiB", [](void** memory) { return cudaMalloc(memory, 64 << 20); }},
      {"cudaMallocManaged, 1 MiB",
       [](void** memory) { return cudaMallocManaged(memory, 1 << 20, cudaMemAttachGlobal); }},
      {"cudaMallocAsync, 1 MiB", [stream](void** memory) { return cudaMallocAsync(memory, 1 << 20, stream); }},
  };
  probe::Record record;
  for (const Case& one : cases) {
    void* memory = nullptr;
    REQUIRE(one.allocate(&memory));
    REQUIRE(cudaDeviceSynchronize());
    probe::keep_busy(stream);
    REQUIRE(cudaGetLastError());
    cudaError_t error = cudaSuccess;
    const double elapsed = probe::milliseconds([&] { error = cudaFree(memory); });
    const bool pending = cudaStreamQuery(stream) == cudaErrorNotReady;
    record.observe(one.name, error != cudaSuccess ? probe::name_of(error) : pending ? "returns at once" : "waits");
    record.measure(std::string("cudaFree after ") + one.name + ", ms", elapsed);
    REQUIRE(cudaDeviceSynchronize());
  }
  record.print();
}
