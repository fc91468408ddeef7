// The forward pass as the host sees it: check the arguments, plan the launch, launch.
#pragma once

#include <cstdint>

#include "attention/forward_params.h"
#include "host/build.h"
#include "host/c_api.h"

namespace fa3 {

// Throw FA3_VALUE_ERROR or FA3_TYPE_ERROR naming the argument, what was given and what is allowed.
void check_forward(const Fa3Forward& forward);
void check_append(const Fa3Append& append);

// The class of a call whose arguments are good.
Problem problem_of(const Fa3Forward& forward);

// Tiles of the variant, 0 when there is nothing to write. Fills everything of `params` but ticket and splits whenever
// it isn't 0.
int64_t plan_forward(const Fa3Forward& forward, const Fa3Variant& variant, int32_t sms, ForwardParams& params);

// Bytes that launch_forward needs at forward.workspace.
int64_t workspace_bytes(const Fa3Forward& forward);
void launch_forward(const Fa3Forward& forward, CUstream stream);
void launch_append(const Fa3Append& append, CUstream stream);

}  // namespace fa3
