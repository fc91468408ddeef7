// Enqueues one kernel.
#pragma once

#include <cstdint>

#include "host/driver.h"

namespace fa3 {

struct Launch {
  int64_t grid;  // CTAs, 1-D
  int32_t threads, shared_bytes;
  void* argument;
  bool starts_early;  // may before the grids before it end: its code waits for them (ptx/grid_order.cuh)
};

// `name` is for the message of a failure. The device's context must be current.
void launch(const Device& device, CUkernel kernel, const char* name, const Launch& what, CUstream stream);

}  // namespace fa3
