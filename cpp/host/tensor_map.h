// How TMA sees q, k and v.
#pragma once

#include <cstdint>

#include "attention/tma_params.h"
#include "host/c_api.h"
#include "host/driver.h"

namespace fa3 {

// Whether a map can describe the tensor: Fa3Layout. Sizes need no look: fa3_check and the planning of tiles keep them
// below 2^32.
bool is_tma_layout(const Fa3Tensor& tensor);

// Fills the maps of a call whose q, k and v are of that layout, for a variant with tma_columns. A tensor seen before by
// this thread costs no call of the driver: a map holds an address and a shape, no memory, so that it never goes stale.
void fill_tensor_maps(const Driver& driver, const Fa3Forward& forward, const Fa3Variant& variant,
                      TmaForwardParams& params);

}  // namespace fa3
