// Stand-in for cpp/ptx/cp_async.cuh: a copy is seen by its own thread once it has waited for its group, not before.
#pragma once

#include <deque>

#include "ptx/shared.cuh"

namespace fa3::ptx {

struct PendingCopy {
  uint32_t shared;
  uint4 value;
};
// Of each thread: groups of copies, the last of them still open.
inline std::map<uint32_t, std::deque<std::vector<PendingCopy>>> copy_groups;

inline std::deque<std::vector<PendingCopy>>& groups_of_thread() {
  auto& groups = copy_groups[threadIdx.x];
  if (groups.empty()) groups.emplace_back();
  return groups;
}

inline void cp_async_16(uint32_t shared, const void* global, bool valid) {
  if (valid && reinterpret_cast<uintptr_t>(global) % 16 != 0) throw emulator::Failure("misaligned cp.async");
  emulator::at(shared, 16);
  groups_of_thread().back().push_back({shared, valid ? *static_cast<const uint4*>(global) : uint4{}});
}
inline void cp_async_commit() {
  groups_of_thread().emplace_back();
}
template <int kPending>
void cp_async_wait() {
  auto& groups = groups_of_thread();
  while (groups.size() > kPending + 1) {
    for (const PendingCopy& copy : groups.front()) store_shared(copy.shared, copy.value);
    groups.pop_front();
  }
}

}  // namespace fa3::ptx
