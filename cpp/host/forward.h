// The forward pass as the host sees it: check the arguments, plan the launch, launch.
#pragma once

#include <cstdint>

#include "attention/forward_params.h"
#include "host/build.h"
#include "host/c_api.h"

namespace fa3 {

// Throws FA3_VALUE_ERROR or FA3_TYPE_ERROR naming the argument, what was given and what is allowed.
void check_forward(const Fa3Forward& forward);

// The class of a call whose arguments are good.
Problem problem_of(const Fa3Forward& forward);

// Tiles of block_m query rows, 0 when there is nothing to write. Fills everything of `params` whenever it isn't 0.
int64_t plan_forward(const Fa3Forward& forward, int32_t block_m, int64_t l2_bytes, ForwardParams& params);

void launch_forward(const Fa3Forward& forward, CUstream stream);

}  // namespace fa3
