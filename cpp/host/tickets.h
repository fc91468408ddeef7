// Who takes which ticket counter of a kernel with a persistent grid: ForwardParams::ticket.
#pragma once

#include <cstdint>

#include "host/driver.h"

namespace fa3 {

// A counter that no launch which may run at the same time shares: a stream's own, as its launches run one after the
// other; for a captured launch one that is its alone: instances of one graph may not run at the same time.
// Kernels have counters of their own, on each device. -1 (a fixed order) when there is none left.
int32_t take_ticket(const Driver& driver, CUstream stream);

}  // namespace fa3
