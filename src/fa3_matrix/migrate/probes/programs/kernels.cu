#include "kernels.h"

#include "probe.h"

namespace {

__global__ void spin(unsigned long long nanoseconds) {
  unsigned long long start = 0;
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
}

__global__ void trap() {
  asm volatile("trap;");
}

__global__ void empty() {}

}  // namespace

namespace probe {

void load_kernels() {
  cudaFuncAttributes attributes;
  REQUIRE(cudaFuncGetAttributes(&attributes, trap));
  REQUIRE(cudaFuncGetAttributes(&attributes, empty));
  keep_busy(nullptr, 0);
  REQUIRE(cudaGetLastError());
  REQUIRE(cudaDeviceSynchronize());
}

void keep_busy(cudaStream_t stream, int milliseconds) {
  spin<<<1, 1, 0, stream>>>(milliseconds * 1000000ull);
}

void fail(cudaStream_t stream) {
  trap<<<1, 1, 0, stream>>>();
}

void* empty_kernel() {
  return reinterpret_cast<void*>(empty);
}

}  // namespace probe
