// Work for the device, compiled once by nvcc: the probes themselves are the host compiler's.
#pragma once

#include <cuda_runtime_api.h>

namespace probe {

// How long work stays pending: far above what a call takes that does not wait.
constexpr int kPendingMilliseconds = 300;

// Loads the kernels, so that no later launch waits for that.
void load_kernels();

// Launches a kernel that runs for so long; the caller asks cudaGetLastError.
void keep_busy(cudaStream_t stream, int milliseconds = kPendingMilliseconds);

// Launches a kernel that fails, after which the context is of no use.
void fail(cudaStream_t stream);

// A kernel without arguments, as the node of a graph.
void* empty_kernel();

}  // namespace probe
