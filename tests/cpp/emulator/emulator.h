// Runs a CUDA kernel's source as plain C++: every thread of a CTA is a fiber, CTAs run one after another. Enough of CUDA for this
// project's kernels, with stand-ins for cpp/ptx beside it. Copies by TMA arrive late and in any order, threads run in an order drawn from a
// seed, and threads that wait for what never comes are an error that says where.
//
// What it can't show: registers, memory ordering between threads, and the asynchrony of wgmma and cp.async, which act at once.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static  // CTAs run one after another; `extern __shared__` is rewritten to `extern` before

struct uint2 {
  uint32_t x, y;
};
struct uint4 {
  uint32_t x, y, z, w;
};
struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
struct Dim3 {
  uint32_t x = 0, y = 0, z = 0;
};
inline Dim3 threadIdx, blockIdx, gridDim;
using std::max;
using std::min;

namespace emulator {

inline constexpr uint32_t kSharedBytes = 232 << 10;  // of an H100's CTA, and a poisoned page
inline constexpr uint32_t kWarp = 32;

// Where the dynamic shared memory of the running kernel begins.
inline uint8_t* shared = nullptr;

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A point where threads meet: the named barriers, __syncthreads, and a warp's.
struct Gate {
  uint32_t arrived = 0;
  uint64_t generation = 0;
};

struct Mbarrier {
  int64_t count = 0, pending = 0, bytes = 0;
  uint32_t phase = 0;
};

class Cta {
 public:
  Cta(uint32_t threads, uint32_t seed) : threads_(threads), random_(seed), fibers_(threads) {}

  void run(const std::function<void()>& kernel) {
    current = this;
    for (uint32_t t = 0; t < threads_; ++t) start(t, kernel);
    std::vector<uint32_t> order(threads_ / kWarp);
    for (uint32_t w = 0; w < order.size(); ++w) order[w] = w;
    while (left_ > 0) {
      bool progress = false;
      std::shuffle(order.begin(), order.end(), random_);
      for (const uint32_t warp : order) {
        do {  // as far as the warp gets by itself
          progress_ = false;
          for (uint32_t t = warp * kWarp; t < (warp + 1) * kWarp; ++t) {
            if (not fibers_[t].finished) resume(t);
            if (error_) std::rethrow_exception(error_);
          }
          progress = progress || progress_;
        } while (progress_);
      }
      for (size_t i = 0; i < copies_.size();) {
        if (random_() % 3 == 0) {
          const auto copy = std::move(copies_[i]);
          copies_.erase(copies_.begin() + static_cast<int64_t>(i));
          copy();
          progress = true;
        } else {
          ++i;
        }
      }
      if (not progress && copies_.empty()) fail_stuck();
    }
    if (not copies_.empty()) throw Failure("the CTA ended with copies on their way");
  }

  template <typename Ready>
  void wait_until(const Ready& ready, const char* what) {
    while (not ready()) {
      fibers_[thread_].waits_for = what;
      swapcontext(&fibers_[thread_].context, &scheduler_);
    }
    progress_ = true;
  }

  void sync(Gate& gate, uint32_t threads, const char* what) {
    const uint64_t mine = gate.generation;
    if (not arrive(gate, threads)) wait_until([&] { return gate.generation != mine; }, what);
  }
  // True for the one that completes it.
  bool arrive(Gate& gate, uint32_t threads) {
    progress_ = true;
    if (++gate.arrived < threads) return false;
    gate.arrived = 0;
    ++gate.generation;
    return true;
  }

  // All lanes of a warp give a value and see all of them.
  template <typename T>
  std::array<T, kWarp> exchange(const T& value, const char* what) {
    static_assert(sizeof(T) <= 64);
    Warp& warp = warps_[thread_ / kWarp];
    const uint32_t lane = thread_ % kWarp;
    std::copy_n(reinterpret_cast<const uint8_t*>(&value), sizeof(T), warp.values[lane].begin());
    sync(warp.gate, kWarp, what);
    std::array<T, kWarp> all;
    for (uint32_t l = 0; l < kWarp; ++l)
      std::copy_n(warp.values[l].begin(), sizeof(T), reinterpret_cast<uint8_t*>(&all[l]));
    sync(warp.gate, kWarp, what);
    return all;
  }
  void sync_warp() { sync(warps_[thread_ / kWarp].gate, kWarp, "__syncwarp"); }

  void sync_warpgroup() { sync(warpgroups_[thread_ / 128], 128, "wgmma"); }

  Gate& gate(int id) { return gates_.at(static_cast<size_t>(id)); }
  Mbarrier& mbarrier(uint32_t address) { return mbarriers_[address]; }
  void complete(Mbarrier& b) {
    progress_ = true;
    if (b.pending < 0) throw Failure("an mbarrier has more arrivals than it counts");
    if (b.pending == 0 && b.bytes == 0) b.phase ^= 1, b.pending = b.count;
  }
  void copy_later(std::function<void()> copy) { copies_.push_back(std::move(copy)); }
  // A copy that the running thread may wait for.
  void store_later(std::function<void()> store) {
    ++stores_[thread_];
    copy_later([this, thread = thread_, store = std::move(store)] {
      store();
      --stores_[thread];
    });
  }
  void wait_for_stores() {
    wait_until([this, thread = thread_] { return stores_[thread] == 0; }, "its stores");
  }
  uint32_t threads() const { return threads_; }

  static inline Cta* current = nullptr;

 private:
  static constexpr size_t kStack = 256 << 10;

  struct Fiber {
    ucontext_t context;
    std::function<void()> body;
    const char* waits_for = "";
    bool finished = false;
  };
  struct Warp {
    Gate gate;
    std::array<std::array<uint8_t, 64>, kWarp> values;
  };

  void start(uint32_t t, const std::function<void()>& kernel) {
    static std::vector<std::unique_ptr<uint8_t[]>> stacks;  // kept for the CTAs after
    if (stacks.size() <= t) stacks.emplace_back(new uint8_t[kStack]);
    Fiber& fiber = fibers_[t];
    fiber.body = kernel;
    getcontext(&fiber.context);
    fiber.context.uc_stack = {stacks[t].get(), 0, kStack};
    fiber.context.uc_link = &scheduler_;
    makecontext(&fiber.context, &Cta::enter, 0);
    ++left_;
  }

  static void enter() {
    Cta& cta = *current;
    const uint32_t thread = cta.thread_;
    try {
      cta.fibers_[thread].body();
    } catch (...) {
      cta.error_ = std::current_exception();
    }
    cta.fibers_[thread].finished = true;
    --cta.left_;
    cta.progress_ = true;
  }

  void resume(uint32_t t) {
    thread_ = t;
    threadIdx.x = t;
    swapcontext(&scheduler_, &fibers_[t].context);
  }

  [[noreturn]] void fail_stuck() const {
    std::map<std::string, std::string> waiting;
    for (uint32_t t = 0; t < threads_; ++t) {
      if (not fibers_[t].finished) waiting[fibers_[t].waits_for] += " " + std::to_string(t);
    }
    std::string text = "threads wait for what never comes:";
    for (const auto& [what, who] : waiting) text += "\n  " + what + ":" + who;
    throw Failure(text);
  }

  uint32_t threads_, thread_ = 0, left_ = 0;
  std::mt19937 random_;
  std::vector<Fiber> fibers_;
  ucontext_t scheduler_;
  std::array<Warp, 32> warps_;
  std::array<Gate, 16> gates_;
  std::array<Gate, 8> warpgroups_;
  std::map<uint32_t, Mbarrier> mbarriers_;
  std::vector<std::function<void()>> copies_;
  std::map<uint32_t, int> stores_;  // on their way, by thread
  bool progress_ = false;
  std::exception_ptr error_;
};

inline Cta& cta() {
  return *Cta::current;
}

// Bytes of shared memory, which must be there.
inline uint8_t* at(uint32_t address, uint32_t bytes) {
  if (address % bytes != 0 && bytes <= 16) throw Failure("misaligned access to shared memory");
  if (address + bytes > kSharedBytes) throw Failure("access beyond shared memory");
  return shared + address;
}

}  // namespace emulator

template <typename T>
T __shfl_xor_sync(uint32_t, T value, int mask) {
  return emulator::cta().exchange(value, "__shfl_xor_sync")[threadIdx.x % 32 ^ static_cast<uint32_t>(mask)];
}
template <typename T>
T __shfl_sync(uint32_t, T value, int lane) {
  return emulator::cta().exchange(value, "__shfl_sync")[static_cast<uint32_t>(lane) % 32];
}
inline bool __any_sync(uint32_t, bool value) {
  const auto all = emulator::cta().exchange(value, "__any_sync");
  return std::any_of(all.begin(), all.end(), [](bool x) { return x; });
}
inline void __syncwarp() {
  emulator::cta().sync_warp();
}
inline void __syncthreads() {
  emulator::cta().sync(emulator::cta().gate(0), emulator::cta().threads(), "__syncthreads");
}
inline void __trap() {
  throw emulator::Failure("__trap");
}
inline uint32_t atomicInc(uint32_t* address, uint32_t limit) {
  const uint32_t old = *address;
  *address = old >= limit ? 0 : old + 1;
  return old;
}
