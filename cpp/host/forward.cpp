#include "host/forward.h"

#include <algorithm>
#include <limits>

#include "attention/split_grid.h"
#include "attention/tile_scheduler.h"
#include "attention/tma_params.h"
#include "host/error.h"
#include "host/launch.h"
#include "host/splits.h"
#include "host/tensor_map.h"
#include "host/tensor_view.h"
#include "host/tickets.h"

namespace fa3 {
namespace {

// Whether pages make up blocks of 64 or 128 keys, or the other way round; of 8 keys or more, after which swizzles repeat.
bool suits_blocks(int64_t page_size) {
  return (page_size >= 8 && 64 % page_size == 0) || page_size % 128 == 0;
}

Fa3Layout layout_of(const Fa3Forward& f) {
  const bool aligned = is_tma_layout(f.q) && is_tma_layout(f.k) && is_tma_layout(f.v);
  if (f.page_table.rank < 0) return aligned ? FA3_LAYOUT_ALIGNED : FA3_LAYOUT_UNALIGNED;
  return aligned && suits_blocks(size_of(f.k, kRow)) ? FA3_LAYOUT_PAGED_ALIGNED : FA3_LAYOUT_PAGED;
}

bool is_packed(const Fa3Forward& f) {
  return f.cu_seqlens_q.rank >= 0;
}

struct Lengths {
  int64_t batch, seqlen_q, seqlen_k, rows_q, rows_k;
};

Lengths lengths_of(const Fa3Forward& f) {
  const int64_t rows_q = size_of(f.q, kRow);
  const int64_t rows_k = f.page_table.rank < 0 ? size_of(f.k, kRow) : size_of(f.k, kRow) * f.page_table.sizes[1];
  const int64_t batch = is_packed(f) ? f.cu_seqlens_q.sizes[0] - 1 : f.q.sizes[0];
  const int64_t seqlen_q = is_packed(f) ? std::min(f.max_seqlen_q, rows_q) : rows_q;
  const int64_t seqlen_k = f.kind == FA3_VARLEN ? std::min(f.max_seqlen_k, rows_k) : rows_k;
  return {batch, seqlen_q, seqlen_k, rows_q, rows_k};
}

// Pairs of (batch, query head) of a section, see tile_scheduler.h: enough for a tile an SM, so that what runs at a time
// shares K and V in L2. Two tiles under a mask, which makes them of different length: the last section should hold short
// ones to fill the gaps. All sections but the first are of the same size.
int64_t heads_per_section(int64_t kv_heads, int64_t heads_of_kv, int64_t m_blocks, bool masked, int32_t sms) {
  const int64_t least_tiles = int64_t{sms} * (masked ? 2 : 1);
  const int64_t tiles_of_kv = m_blocks * heads_of_kv;
  const int64_t wanted = (least_tiles + tiles_of_kv - 1) / tiles_of_kv;
  const int64_t sections = (kv_heads + wanted - 1) / wanted;
  return (kv_heads + sections - 1) / sections * heads_of_kv;
}

}  // namespace

Problem problem_of(const Fa3Forward& f) {
  const Lengths lengths = lengths_of(f);
  // As stated, even where the tensors have fewer rows: what a sequence's result is must not depend on the others.
  const int64_t seqlen_q = is_packed(f) ? f.max_seqlen_q : lengths.rows_q;
  const int64_t seqlen_k = f.kind == FA3_VARLEN ? f.max_seqlen_k : lengths.rows_k;
  const Window window = normalised_window(f.causal, f.window_left, f.window_right, seqlen_q, seqlen_k);
  const int64_t rows = query_rows(seqlen_q, size_of(f.q, kHead) / size_of(f.k, kHead));
  return {f.q.dtype, static_cast<int32_t>(size_of(f.q, kHeadDim)), window.mask, layout_of(f), rows, seqlen_k};
}

int64_t plan_forward(const Fa3Forward& f, const Fa3Variant& variant, int32_t sms, ForwardParams& p) {
  const Lengths lengths = lengths_of(f);
  const int64_t heads_q = size_of(f.q, kHead);
  const int64_t heads_k = size_of(f.k, kHead);
  const int64_t head_dim = size_of(f.q, kHeadDim);
  if (lengths.batch == 0 || lengths.rows_q == 0) return 0;

  const Window window = normalised_window(f.causal, f.window_left, f.window_right, lengths.rows_q, lengths.rows_k);
  const int64_t group = variant.splits_keys ? heads_q / heads_k : 1;  // heads that are rows of one tile
  if (lengths.rows_q > kMaxRows / group) {
    fail(FA3_VALUE_ERROR, lengths.rows_q, " rows of q x ", group, " heads of q for each of k are more than ", kMaxRows,
         "; split the call");
  }
  const int64_t m_blocks = std::max<int64_t>((lengths.seqlen_q * group + variant.block_m - 1) / variant.block_m, 1);
  const int64_t tiles = m_blocks * (heads_q / group) * lengths.batch;
  if (tiles > std::numeric_limits<int32_t>::max()) {
    fail(FA3_VALUE_ERROR, "batch ", lengths.batch, " x ", heads_q, " heads x seqlen_q ", lengths.seqlen_q, " make ",
         tiles, " tiles, more than one grid holds (2^31 - 1); split the batch");
  }

  p.q = f.q.data;
  p.k = f.k.data;
  p.v = f.v.data;
  p.out = f.out;
  p.lse = static_cast<float*>(f.lse);
  p.q_stride = strides_of(f.q);
  p.k_stride = strides_of(f.k);
  p.v_stride = strides_of(f.v);
  p.out_stride = {is_packed(f) ? 0 : lengths.rows_q * heads_q * head_dim, heads_q * head_dim, head_dim};
  p.lse_batch_stride = is_packed(f) ? 0 : heads_q * lengths.rows_q;
  p.lse_head_stride = lengths.rows_q;
  p.cu_seqlens_q = indices(f.cu_seqlens_q);
  p.cu_seqlens_k = indices(f.cu_seqlens_k);
  p.seqused_q = indices(f.seqused_q);
  p.seqused_k = indices(f.seqused_k);
  p.page_table = indices(f.page_table);
  p.page_table_stride = f.page_table.rank < 0 ? 0 : stride_of(f.page_table, 0);
  p.batch = static_cast<int32_t>(lengths.batch);
  p.heads_q = static_cast<int32_t>(heads_q);
  p.heads_k = static_cast<int32_t>(heads_k);
  p.seqlen_q = static_cast<int32_t>(lengths.seqlen_q);
  p.seqlen_k = static_cast<int32_t>(lengths.seqlen_k);
  p.total_q = static_cast<int32_t>(lengths.rows_q);
  p.total_k = static_cast<int32_t>(lengths.rows_k);
  p.head_dim = static_cast<int32_t>(head_dim);
  p.page_size = f.page_table.rank < 0 ? 1 : static_cast<int32_t>(size_of(f.k, kRow));
  p.num_pages = f.page_table.rank < 0 ? 0 : static_cast<int32_t>(f.k.sizes[0]);
  p.added_k = static_cast<int32_t>(f.new_rows);
  p.softmax_scale = static_cast<float>(f.softmax_scale);
  p.softcap = static_cast<float>(f.softcap);
  p.window_left = window.left;
  p.window_right = window.right;
  p.num_m_blocks = static_cast<int32_t>(m_blocks);
  p.heads_per_section = static_cast<int32_t>(
      heads_per_section(lengths.batch * heads_k, heads_q / heads_k, m_blocks, window.mask != FA3_MASK_FULL, sms));
  p.heads_of_first_section = heads_of_first_section(lengths.batch * heads_q, p.heads_per_section);
  p.ticket = -1;
  p.num_splits = 1;
  p.slots = 0;
  p.partial_out = p.partial_lse = nullptr;
  p.q_aligned = is_aligned(f.q, p.q_stride);
  p.kv_aligned = is_aligned(f.k, p.k_stride) && is_aligned(f.v, p.v_stride);
  return tiles;
}

namespace {

// A call on its way to the GPU.
struct Planned {
  const Device& device;
  Kernel& kernel;
  int64_t tiles;
  TmaForwardParams params;
};

// Rows of one split's partial results, one for each element of lse.
int64_t partial_rows(const ForwardParams& p) {
  return int64_t{p.heads_q} * p.total_q * (p.cu_seqlens_q == nullptr ? p.batch : 1);
}

int64_t bytes_of_split(const ForwardParams& p) {
  return partial_rows(p) * (p.head_dim + 1) * static_cast<int64_t>(sizeof(float));
}

int64_t workspace_of(const ForwardParams& p) {
  return p.num_splits == 1 ? 0 : p.num_splits * bytes_of_split(p);
}

// Keys that a tile of `p` may visit.
int64_t keys_of_tile(const ForwardParams& p, const Fa3Variant& variant) {
  if (p.window_left < 0 || p.window_right < 0) return p.seqlen_k;
  return std::min<int64_t>(p.seqlen_k, int64_t{p.window_left} + p.window_right + variant.block_m);
}

void plan_splits(const Fa3Forward& f, const Fa3Variant& variant, const Device& device, int64_t tiles,
                 ForwardParams& p) {
  if (not variant.splits_keys || f.num_splits == 1) return;
  constexpr int32_t kReservedBytes = 1024;  // of shared memory, for each CTA
  const Slots slots{device.sms,
                    std::max(1, std::min(device.sm_threads / variant.threads,
                                         device.sm_shared_bytes / (variant.dynamic_shared_bytes + kReservedBytes)))};
  const int64_t key_blocks = (keys_of_tile(p, variant) + variant.block_n - 1) / variant.block_n;
  // Many rounds even out by themselves, and reading many lengths takes each CTA longer than that gains.
  const bool is_ragged = p.batch > 1 && p.batch <= 512 && tiles <= 4 * slots.count() &&
                         (p.seqused_k != nullptr || p.cu_seqlens_k != nullptr);
  int32_t splits = choose_splits(f.num_splits, tiles, key_blocks, slots);
  if (is_ragged && f.num_splits == 0) {
    // One long entry may need as many splits as if it were alone, but all entries' rows are kept for each.
    constexpr int64_t kMostWorkspace = 64 << 20;
    const int64_t affordable = kMostWorkspace / std::max<int64_t>(bytes_of_split(p), 1);
    const int32_t wanted = choose_splits(0, tiles / p.batch, key_blocks, slots);
    splits = std::max(splits, static_cast<int32_t>(std::min<int64_t>(wanted, affordable)));
  }
  const int64_t largest_grid = std::max(tiles * splits, int64_t{p.seqlen_q} * p.heads_q * p.batch);
  if (splits == 1 || largest_grid > std::numeric_limits<int32_t>::max()) return;
  p.num_splits = splits;
  if (is_ragged) p.slots = static_cast<int32_t>(slots.count());
}

Planned plan(const Fa3Forward& f) {
  const Device& device = Device::get(f.q.device);
  const Decision decision = decide(device.capability, problem_of(f), device.name.c_str());
  Planned planned{device, *get_build(decision.build).kernels[decision.variant], 0, {}};
  const Fa3Variant& variant = planned.kernel.variant();
  ForwardParams& p = planned.params.forward;
  planned.tiles = plan_forward(f, variant, device.sms, p);
  if (planned.tiles > 0) plan_splits(f, variant, device, planned.tiles, p);
  return planned;
}

}  // namespace

int64_t workspace_bytes(const Fa3Forward& f) {
  const Planned planned = plan(f);
  const ForwardParams& p = planned.params.forward;
  return planned.tiles == 0 ? 0 : workspace_of(p);
}

void launch_forward(const Fa3Forward& f, CUstream stream) {
  Planned planned = plan(f);
  auto& [device, kernel, tiles, params] = planned;
  if (tiles == 0) return;
  ForwardParams& p = params.forward;
  const Fa3Variant& variant = kernel.variant();
  const ContextGuard context(device);
  const Driver& driver = Driver::get();
  const bool by_tma = variant.tma_columns > 0;
  if (by_tma) {
    fill_tensor_maps(driver, f, variant, params);
    p.ticket = take_ticket(driver, stream);
  }
  if (p.num_splits > 1) {
    const int64_t needed = workspace_of(p);
    if (f.workspace_bytes < needed) {
      fail(FA3_VALUE_ERROR, "the workspace has ", f.workspace_bytes, " bytes, ", needed,
           " are needed: another thread changed the build in use during the call; call again");
    }
    p.partial_out = static_cast<float*>(f.workspace);
    p.partial_lse = p.partial_out + p.num_splits * partial_rows(p) * p.head_dim;
  }
  const int64_t grid = by_tma ? std::min<int64_t>(tiles, device.sms) : split_ctas(p, tiles);
  const CUkernel loaded = kernel.on(device);
  const bool early = kernel.waits_for_grids_before();
  launch(device, loaded, variant.name,
         {grid, variant.threads, variant.dynamic_shared_bytes, by_tma ? static_cast<void*>(&params) : &p, early},
         stream);
  if (p.num_splits > 1) {
    const int64_t rows = int64_t{std::max(p.seqlen_q, 1)} * p.heads_q * p.batch;
    launch(device, kernel.combine_on(device), variant.name, {rows, kCombineThreads, 0, &p, early}, stream);
  }
}

}  // namespace fa3
