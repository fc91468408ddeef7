// Builds that this process knows, and which of them calls use.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "host/driver.h"
#include "host/selection.h"

namespace fa3 {

// One variant's kernel, loaded when it is first launched.
class Kernel {
 public:
  Kernel(const Fa3Variant& variant, std::string build);

  const Fa3Variant& variant() const { return variant_; }

  // Ready to be launched on the device, whose context is current. Loading is safe while a stream is being captured.
  CUkernel on(const Device& device);
  // Of a variant with splits_keys, likewise.
  CUkernel combine_on(const Device& device) { return on(device), combine_; }
  CUkernel append_on(const Device& device) { return on(device), append_; }
  // Whether its code waits for the grids before it, so that it may start while they run; known once it is loaded.
  bool waits_for_grids_before() const { return waits_; }

 private:
  void load(const Driver& driver, const Device& device);
  [[noreturn]] void fail_to_load(const Driver& driver, const Device& device, CUresult result, const char* call) const;

  std::string name_, fatbin_, build_;
  Fa3Variant variant_;  // its strings are the members above
  std::mutex mutex_;
  CUkernel kernel_ = nullptr, combine_ = nullptr, append_ = nullptr;
  std::atomic<bool> waits_{false};
  std::atomic<uint64_t> ready_{0};  // bit per device ordinal
};

struct Build {
  std::string name;
  int32_t min_capability, max_capability;
  bool is_ptx;
  bool is_finished = false;
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::vector<ServedSet> served;
  SelectionTable table;

  bool runs_on(int32_t capability) const { return min_capability <= capability && capability <= max_capability; }
};

int32_t create_build(std::string name, int32_t forward_abi, int32_t min_capability, int32_t max_capability,
                     bool is_ptx);
Build& get_build(int32_t handle);
void finish_build(Build& build);
void activate(const int32_t* handles, int32_t count);

struct Decision {
  int32_t build, variant;  // handle and index
};

// The first active build that runs on the capability and serves the problem; throws FA3_NO_KERNEL_ERROR saying what
// each active build lacks. `device_name` (may be null) is for the message.
Decision decide(int32_t capability, const Problem& problem, const char* device_name);

}  // namespace fa3
