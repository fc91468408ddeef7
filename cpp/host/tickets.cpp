#include "host/tickets.h"

#include <array>
#include <atomic>

#include "attention/forward_params.h"

namespace fa3 {
namespace {

constexpr int32_t kStreamTickets = kTicketCounters / 4;  // the others are for captured launches
constexpr int32_t kProbes = 64;

// An open hash table without locks, in which a stream's place is its ticket. Ids are unique for the life of the
// process, whatever the device, and never used again; so places are not given back.
int32_t stream_ticket(uint64_t stream_id) {
  static std::array<std::atomic<uint64_t>, kStreamTickets> owners{};
  const uint64_t key = stream_id + 1;  // 0 is a free place
  const uint64_t first = key * 0x9e3779b97f4a7c15 >> 32;
  for (int32_t probe = 0; probe < kProbes; ++probe) {
    const int32_t place = static_cast<int32_t>((first + probe) % kStreamTickets);
    uint64_t owner = owners[place].load(std::memory_order_relaxed);
    if (owner == 0 && owners[place].compare_exchange_strong(owner, key, std::memory_order_relaxed)) return place;
    if (owner == key) return place;
  }
  return -1;
}

// Never given back: nobody tells when a graph is gone.
int32_t captured_ticket() {
  static std::atomic<int32_t> next{kStreamTickets};
  int32_t ticket = next.load(std::memory_order_relaxed);
  while (ticket < kTicketCounters && not next.compare_exchange_weak(ticket, ticket + 1, std::memory_order_relaxed)) {
  }
  return ticket < kTicketCounters ? ticket : -1;
}

}  // namespace

int32_t take_ticket(const Driver& driver, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  driver.check(driver.cuStreamIsCapturing(stream, &status), "cuStreamIsCapturing");
  if (status != CU_STREAM_CAPTURE_STATUS_NONE) return captured_ticket();
  // One handle for as many streams as there are threads, whose ids aren't documented to differ.
  if (stream == CU_STREAM_PER_THREAD) return -1;
  unsigned long long id = 0;
  driver.check(driver.cuStreamGetId(stream, &id), "cuStreamGetId");
  return stream_ticket(id);
}

}  // namespace fa3
