// One variant, launched as cpp/host would: the file that the build makes of its template is FA3_SOURCE.
#include "attention/split_grid.h"
#include "emulator.h"
#include "ptx/cp_async.cuh"
#include "ptx/tma.cuh"

#include FA3_SOURCE

namespace fa3 {
namespace sm80 {
__align__(1024) uint8_t tiles[emulator::kSharedBytes];
}
namespace sm90 {
__align__(1024) uint8_t storage[emulator::kSharedBytes];
}
namespace splitkv {
__align__(1024) uint8_t tiles[emulator::kSharedBytes];
}
}  // namespace fa3

// What tests/cpp/emulation.py fills.
struct EmulatedCall {
  fa3::ForwardParams params;
  int64_t q_sizes[4], k_sizes[4];  // of the maps: head_dim, row, head, batch
  int32_t ctas;                    // of a persistent grid
  uint32_t seed;
};

namespace {

template <typename Kernel, typename Params>
void launch(const Kernel& kernel, const Params& params, int64_t grid, uint32_t threads, uint32_t seed) {
  gridDim.x = static_cast<uint32_t>(grid);
  for (int64_t i = 0; i < grid; ++i) {
    std::fill_n(FA3_SHARED, emulator::kSharedBytes, uint8_t{0xFF});  // NaN
    emulator::shared = FA3_SHARED;
    blockIdx.x = static_cast<uint32_t>(i);
    fa3::ptx::copy_groups.clear();
    emulator::Cta(threads, seed + static_cast<uint32_t>(i)).run([&] { kernel(params); });
  }
}

fa3::TensorMap map_of(const void* data, const int64_t (&sizes)[4], const fa3::Strides& s, int64_t columns,
                      int64_t rows) {
  const emulator::MapOfTensor map{static_cast<uint8_t*>(const_cast<void*>(data)),
                                  {sizes[0], sizes[1], sizes[2], sizes[3]},
                                  {s.row * 2, s.head * 2, s.batch * 2},
                                  columns,
                                  rows};
  fa3::TensorMap opaque{};
  std::memcpy(&opaque, &map, sizeof map);
  return opaque;
}

}  // namespace

template <typename Body>
static int status_of(const Body& body, char* message, int message_bytes) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    std::snprintf(message, static_cast<size_t>(message_bytes), "%s", error.what());
    return 1;
  }
}

extern "C" int emulate(const EmulatedCall* call, char* message, int message_bytes) {
  const auto body = [&] {
    const fa3::VariantInfo& info = FA3_INFO;
    const fa3::ForwardParams& p = call->params;
    const auto threads = static_cast<uint32_t>(info.threads);
    const int64_t tiles = int64_t{p.num_m_blocks} * (info.splits_keys ? p.heads_k : p.heads_q) * p.batch;
#if FA3_BY_TMA
    fa3::TmaForwardParams params;
    params.forward = p;
    params.q = map_of(p.q, call->q_sizes, p.q_stride, info.tma_columns, fa3::kQueryBoxRows);
    const int keys = p.page_table == nullptr ? info.block_n : std::min(info.block_n, p.page_size);
    params.k = map_of(p.k, call->k_sizes, p.k_stride, info.tma_columns, keys);
    params.v = map_of(p.v, call->k_sizes, p.v_stride, info.tma_columns, keys);
    params.out = map_of(p.out, call->q_sizes, p.out_stride, info.tma_columns, fa3::kQueryBoxRows);
    launch(FA3_KERNEL, params, std::min<int64_t>(tiles, call->ctas), threads, call->seed);
#else
    launch(FA3_KERNEL, p, fa3::split_ctas(p, tiles), threads, call->seed);
#endif
#if FA3_SPLITS
    const int64_t rows = int64_t{std::max(p.seqlen_q, 1)} * p.heads_q * p.batch;
    if (p.num_splits > 1) launch(FA3_COMBINE, p, rows, fa3::kCombineThreads, call->seed);
#endif
  };
  return status_of(body, message, message_bytes);
}

#if FA3_SPLITS
extern "C" int emulate_append(const fa3::AppendParams* params, char* message, int message_bytes) {
  return status_of([&] { launch(FA3_APPEND, *params, 2, fa3::kAppendThreads, 0); }, message, message_bytes);
}
#endif
