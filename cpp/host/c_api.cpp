#include "host/c_api.h"

#include <exception>

#include "attention/forward_params.h"
#include "host/build.h"
#include "host/error.h"
#include "host/forward.h"
#include "host/splits.h"

namespace {

using fa3::Error;

thread_local Error last_error{FA3_OK, ""};

template <typename Body>
int32_t status_of(Body body) noexcept {
  try {
    body();
    return FA3_OK;
  } catch (Error& error) {
    last_error = std::move(error);
  } catch (const std::exception& error) {
    last_error = {FA3_INTERNAL_ERROR, error.what()};
  }
  return last_error.status;
}

// For handles and indices, which are not negative: -status of a failure.
template <typename Body>
int32_t value_of(Body body) noexcept {
  int32_t value = 0;
  const int32_t status = status_of([&] { value = body(); });
  return status == FA3_OK ? value : -status;
}

fa3::Problem problem(int32_t dtype, int32_t head_dim, int32_t mask, int32_t layout, int64_t query_rows,
                     int64_t seqlen_k) {
  if ((dtype != fa3::kFloat16 && dtype != fa3::kBFloat16) || mask < 0 || mask >= fa3::kMasks || layout < 0 ||
      layout >= fa3::kLayouts) {
    fa3::fail(FA3_VALUE_ERROR, "no problem class has dtype ", dtype, ", mask ", mask, " and layout ", layout);
  }
  return {dtype, head_dim, static_cast<Fa3Mask>(mask), static_cast<Fa3Layout>(layout), query_rows, seqlen_k};
}

// One that may still change.
fa3::Build& open_build(int32_t handle) {
  fa3::Build& build = fa3::get_build(handle);
  if (build.is_finished) fa3::fail(FA3_BUILD_ERROR, "build ", build.name, " is finished");
  return build;
}

}  // namespace

const char* fa3_last_error(void) {
  return last_error.message.c_str();
}
int32_t fa3_last_status(void) {
  return last_error.status;
}
int32_t fa3_forward_abi_version(void) {
  return fa3::kForwardAbiVersion;
}

int32_t fa3_build_create(const char* name, int32_t forward_abi, int32_t min_capability, int32_t max_capability,
                         int32_t is_ptx) {
  return value_of([&] { return fa3::create_build(name, forward_abi, min_capability, max_capability, is_ptx != 0); });
}

int32_t fa3_build_add_variant(int32_t build, const Fa3Variant* variant) {
  return value_of([&] {
    fa3::Build& b = open_build(build);
    b.kernels.push_back(std::make_unique<fa3::Kernel>(*variant, b.name));
    return static_cast<int32_t>(b.kernels.size()) - 1;
  });
}

int32_t fa3_build_add_serves(int32_t build, int32_t variant, const Fa3Serves* serves) {
  return status_of([&] {
    fa3::Build& b = open_build(build);
    if (variant < 0 || variant >= static_cast<int32_t>(b.kernels.size())) {
      fa3::fail(FA3_VALUE_ERROR, "build ", b.name, " has no variant ", variant);
    }
    b.served.push_back({variant, *serves});
  });
}

int32_t fa3_build_finish(int32_t build) {
  return status_of([&] { fa3::finish_build(fa3::get_build(build)); });
}

int32_t fa3_select(int32_t build, int32_t dtype, int32_t head_dim, int32_t mask, int32_t layout, int64_t query_rows,
                   int64_t seqlen_k, int32_t* variant) {
  return status_of([&] {
    *variant = fa3::get_build(build).table.select(problem(dtype, head_dim, mask, layout, query_rows, seqlen_k));
  });
}

int32_t fa3_activate(const int32_t* builds, int32_t count) {
  return status_of([&] { fa3::activate(builds, count); });
}

int32_t fa3_decide(int32_t capability, int32_t dtype, int32_t head_dim, int32_t mask, int32_t layout,
                   int64_t query_rows, int64_t seqlen_k, int32_t* build, int32_t* variant) {
  return status_of([&] {
    const fa3::Decision decision =
        fa3::decide(capability, problem(dtype, head_dim, mask, layout, query_rows, seqlen_k), nullptr);
    *build = decision.build;
    *variant = decision.variant;
  });
}

int32_t fa3_check(const Fa3Forward* forward) {
  return status_of([&] { fa3::check_forward(*forward); });
}

int32_t fa3_forward(const Fa3Forward* forward, void* stream) {
  return status_of([&] { fa3::launch_forward(*forward, static_cast<CUstream>(stream)); });
}

int32_t fa3_workspace(const Fa3Forward* forward, int64_t* bytes) {
  return status_of([&] { *bytes = fa3::workspace_bytes(*forward); });
}

int32_t fa3_append(const Fa3Append* append, void* stream) {
  return status_of([&] { fa3::launch_append(*append, static_cast<CUstream>(stream)); });
}

int32_t fa3_choose_splits(int64_t requested, int64_t tiles, int64_t key_blocks, int64_t sms, int64_t ctas_of_sm) {
  return fa3::choose_splits(requested, tiles, key_blocks, {sms, ctas_of_sm});
}

int32_t fa3_plan(const Fa3Forward* forward, int32_t build, int32_t sms, void* params, int64_t params_bytes,
                 int32_t* variant, int64_t* tiles) {
  return status_of([&] {
    if (params_bytes != static_cast<int64_t>(sizeof(fa3::ForwardParams))) {
      fa3::fail(FA3_VALUE_ERROR, "ForwardParams has ", sizeof(fa3::ForwardParams), " bytes, not ", params_bytes);
    }
    const fa3::Build& b = fa3::get_build(build);
    *variant = b.table.select(fa3::problem_of(*forward));
    if (*variant == fa3::SelectionTable::kNone) {
      fa3::fail(FA3_NO_KERNEL_ERROR, "build ", b.name, " has no variant for this problem");
    }
    *tiles =
        fa3::plan_forward(*forward, b.kernels[*variant]->variant(), sms, *static_cast<fa3::ForwardParams*>(params));
  });
}

int32_t fa3_driver_version(int32_t* version) {
  return status_of([&] { *version = fa3::Driver::get().version; });
}

int32_t fa3_device_capability(int32_t device, int32_t* capability) {
  return status_of([&] { *capability = fa3::Device::get(device).capability; });
}
