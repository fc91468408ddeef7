// Who takes which ticket counter of a kernel with a persistent grid: ForwardParams::ticket.
#pragma once

#include <cstdint>

#include "host/build.h"
#include "host/driver.h"

namespace fa3 {

// A counter that no launch which may run at the same time shares; -1 when there is none left. Kernels have counters of their
// own, on each device, so only launches of one kernel on one device have to differ:
// - those of a stream run one after the other and share a counter of the first half;
// - one that is captured runs whenever its graph does: a counter of the second half is its own for good. Launches of one
//   instantiated graph run one after the other; to instantiate a captured graph twice and run both at once is not supported.
int32_t take_ticket(const Driver& driver, Kernel& kernel, const Device& device, CUstream stream);

}  // namespace fa3
