#include "host/build.h"

#include <cstring>
#include <deque>
#include <map>

#include "attention/forward_params.h"
#include "host/error.h"

namespace fa3 {
namespace {

struct Registry {
  std::mutex mutex;
  std::deque<Build> builds;  // addresses stay; never shrinks, so that a handle is always good
  // Every list ever activated. Kept, so that a call that runs while another thread switches reads a live one.
  std::map<std::vector<int32_t>, std::vector<int32_t>> lists;
  std::atomic<const std::vector<int32_t>*> active{nullptr};
};

Registry& registry() {
  static Registry& instance = *new Registry;  // outlives static destruction: torch may still launch then
  return instance;
}

std::string range_text(const Build& build) {
  const std::string low = capability_text(build.min_capability);
  if (build.min_capability == build.max_capability) return low;
  if (build.is_ptx) return low + " or newer";
  return concat(low, " to ", capability_text(build.max_capability));
}

const char* mask_text(Fa3Mask mask) {
  return mask == FA3_MASK_FULL ? "full" : mask == FA3_MASK_CAUSAL ? "causal" : "local";
}

const char* layout_text(Fa3Layout layout) {
  return layout == FA3_LAYOUT_ALIGNED     ? "aligned"
         : layout == FA3_LAYOUT_UNALIGNED ? "unaligned"
         : layout == FA3_LAYOUT_PAGED     ? "paged"
                                          : "paged_aligned";
}

[[noreturn]] void fail_to_decide(const std::vector<int32_t>& active, int32_t capability, const Problem& problem,
                                 const char* device_name) {
  std::ostringstream text;
  bool any_runs = false;
  for (const int32_t handle : active) any_runs = any_runs || get_build(handle).runs_on(capability);
  const std::string gpu = device_name == nullptr ? "a GPU" : concat("this GPU (", device_name, ")");
  if (any_runs) {
    text << "no kernel for " << (problem.dtype == kBFloat16 ? "bf16" : "fp16") << ", head_dim " << problem.head_dim
         << ", mask " << mask_text(problem.mask) << ", " << layout_text(problem.layout) << " layout, query rows "
         << problem.query_rows << ", seqlen_k " << problem.seqlen_k << " on " << gpu << " of compute capability "
         << capability_text(capability);
  } else {
    text << "no kernel for " << gpu << " of compute capability " << capability_text(capability);
  }
  text << ". Active builds: ";
  if (active.empty()) text << "none";
  for (size_t index = 0; index < active.size(); ++index) {
    const Build& build = get_build(active[index]);
    text << (index == 0 ? "" : "; ") << build.name << " (compute capability " << range_text(build) << ")";
  }
  text << ". Install the fa3-matrix wheel whose version label ends in .sm" << capability / 10 * 10
       << ", or point FA3_BUILD or use_build() at a build for this GPU; docs/support.md lists the GPUs served";
  throw Error{FA3_NO_KERNEL_ERROR, std::move(text).str()};
}

}  // namespace

int32_t create_build(std::string name, int32_t forward_abi, int32_t min_capability, int32_t max_capability,
                     bool is_ptx) {
  if (forward_abi != kForwardAbiVersion) {
    fail(FA3_BUILD_ERROR, "build ", name, ": its kernels take parameters of version ", forward_abi,
         ", this host library passes version ", kForwardAbiVersion,
         "; build the cell and the host library from one source");
  }
  if (min_capability < 0 || min_capability > max_capability) {
    fail(FA3_BUILD_ERROR, "build ", name, ": empty capability range");
  }
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  Build& build = r.builds.emplace_back();
  build.name = std::move(name);
  build.min_capability = min_capability;
  build.max_capability = max_capability;
  build.is_ptx = is_ptx;
  return static_cast<int32_t>(r.builds.size()) - 1;
}

Build& get_build(int32_t handle) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  if (handle < 0 || handle >= static_cast<int32_t>(r.builds.size())) {
    fail(FA3_VALUE_ERROR, "no build has the handle ", handle);
  }
  return r.builds[handle];
}

void finish_build(Build& build) {
  if (build.is_finished) fail(FA3_BUILD_ERROR, "build ", build.name, " is finished already");
  std::vector<Fa3Variant> variants;
  for (const auto& kernel : build.kernels) variants.push_back(kernel->variant());
  try {
    build.table = SelectionTable(variants, build.served);
  } catch (const Error& error) {
    fail(error.status, "build ", build.name, ": ", error.message);
  }
  build.is_finished = true;
}

void activate(const int32_t* handles, int32_t count) {
  std::vector<int32_t> list(handles, handles + count);
  for (const int32_t handle : list) {
    const Build& build = get_build(handle);
    if (!build.is_finished) fail(FA3_BUILD_ERROR, "build ", build.name, " is not finished");
  }
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.active = &r.lists.try_emplace(list, list).first->second;
}

Decision decide(int32_t capability, const Problem& problem, const char* device_name) {
  static const std::vector<int32_t> kNothing;
  const std::vector<int32_t>* active = registry().active;
  if (active == nullptr) active = &kNothing;
  for (const int32_t handle : *active) {
    const Build& build = get_build(handle);
    if (!build.runs_on(capability)) continue;
    const int32_t variant = build.table.select(problem);
    if (variant != SelectionTable::kNone) return {handle, variant};
  }
  fail_to_decide(*active, capability, problem, device_name);
}

}  // namespace fa3
