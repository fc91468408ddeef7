#include "host/forward.h"

#include <algorithm>
#include <limits>

#include "attention/tma_params.h"
#include "host/error.h"
#include "host/tensor_map.h"
#include "host/tickets.h"

namespace fa3 {
namespace {

// Dimensions of the 4 (dense) or 3 (varlen) that both layouts have, counted from the end.
int64_t size_of(const Fa3Tensor& t, int32_t from_end) {
  return t.sizes[t.rank - from_end];
}
constexpr int32_t kRow = 3, kHead = 2, kHeadDim = 1;

// A dimension of one element has no stride worth the name: torch leaves anything there, which must not cost alignment.
int64_t stride_of(const Fa3Tensor& t, int32_t dim) {
  return t.sizes[dim] <= 1 ? 0 : t.strides[dim];
}

Strides strides_of(const Fa3Tensor& t) {
  return {t.rank == 4 ? stride_of(t, 0) : 0, stride_of(t, t.rank - kRow), stride_of(t, t.rank - kHead)};
}

bool is_aligned(const Fa3Tensor& t, const Strides& s) {
  return reinterpret_cast<uintptr_t>(t.data) % 16 == 0 && s.batch % 8 == 0 && s.row % 8 == 0 && s.head % 8 == 0;
}

Fa3Layout layout_of(const Fa3Forward& f) {
  const bool aligned = is_tma_layout(f.q) && is_tma_layout(f.k) && is_tma_layout(f.v);
  return aligned ? FA3_LAYOUT_ALIGNED : FA3_LAYOUT_UNALIGNED;
}

const int32_t* indices(const Fa3Tensor& t) {
  return t.rank < 0 ? nullptr : static_cast<const int32_t*>(t.data);
}

struct Lengths {
  int64_t batch, seqlen_q, seqlen_k, rows_q, rows_k;
};

Lengths lengths_of(const Fa3Forward& f) {
  const int64_t rows_q = size_of(f.q, kRow);
  const int64_t rows_k = size_of(f.k, kRow);
  if (!f.is_varlen) return {f.q.sizes[0], rows_q, rows_k, rows_q, rows_k};
  return {f.cu_seqlens_q.sizes[0] - 1, std::min(f.max_seqlen_q, rows_q), std::min(f.max_seqlen_k, rows_k), rows_q,
          rows_k};
}

// Pairs of (batch, query head) of a section, see tile_scheduler.h: their K and V fill 9/16 of L2, which leaves the rest for Q, O and
// what is on its way. Sections are of equal size, or the last could hold too few tiles to keep every SM busy.
int64_t heads_per_section(const Lengths& lengths, int64_t heads_q, int64_t heads_k, int64_t head_dim, int64_t l2_bytes) {
  const int64_t kv_bytes = 2 * std::max<int64_t>(lengths.seqlen_k, 1) * head_dim * 2;
  const int64_t most = std::max<int64_t>(l2_bytes / 16 * 9 / kv_bytes, 1);
  const int64_t kv_heads = lengths.batch * heads_k;
  const int64_t sections = (kv_heads + most - 1) / most;
  return (kv_heads + sections - 1) / sections * (heads_q / heads_k);
}

}  // namespace

Problem problem_of(const Fa3Forward& f) {
  const Lengths lengths = lengths_of(f);
  const Window window = normalised_window(f.causal, f.window_left, f.window_right, lengths.rows_q, lengths.rows_k);
  return {f.q.dtype,       static_cast<int32_t>(size_of(f.q, kHeadDim)), window.mask, layout_of(f), lengths.seqlen_q,
          lengths.seqlen_k};
}

int64_t plan_forward(const Fa3Forward& f, int32_t block_m, int64_t l2_bytes, ForwardParams& p) {
  const Lengths lengths = lengths_of(f);
  const int64_t heads_q = size_of(f.q, kHead);
  const int64_t heads_k = size_of(f.k, kHead);
  const int64_t head_dim = size_of(f.q, kHeadDim);
  if (lengths.batch == 0 || lengths.rows_q == 0) return 0;

  const Window window = normalised_window(f.causal, f.window_left, f.window_right, lengths.rows_q, lengths.rows_k);
  const int64_t m_blocks = std::max<int64_t>((lengths.seqlen_q + block_m - 1) / block_m, 1);
  const int64_t pairs = heads_q * lengths.batch;
  const int64_t tiles = m_blocks * pairs;
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
  p.out_stride = {f.is_varlen ? 0 : lengths.rows_q * heads_q * head_dim, heads_q * head_dim, head_dim};
  p.lse_batch_stride = f.is_varlen ? 0 : heads_q * lengths.rows_q;
  p.lse_head_stride = lengths.rows_q;
  p.cu_seqlens_q = indices(f.cu_seqlens_q);
  p.cu_seqlens_k = indices(f.cu_seqlens_k);
  p.seqused_q = indices(f.seqused_q);
  p.seqused_k = indices(f.seqused_k);
  p.batch = static_cast<int32_t>(lengths.batch);
  p.heads_q = static_cast<int32_t>(heads_q);
  p.heads_k = static_cast<int32_t>(heads_k);
  p.seqlen_q = static_cast<int32_t>(lengths.seqlen_q);
  p.seqlen_k = static_cast<int32_t>(lengths.seqlen_k);
  p.total_q = static_cast<int32_t>(lengths.rows_q);
  p.total_k = static_cast<int32_t>(lengths.rows_k);
  p.head_dim = static_cast<int32_t>(head_dim);
  p.softmax_scale = static_cast<float>(f.softmax_scale);
  p.softcap = static_cast<float>(f.softcap);
  p.window_left = window.left;
  p.window_right = window.right;
  p.num_m_blocks = static_cast<int32_t>(m_blocks);
  p.heads_per_section = static_cast<int32_t>(heads_per_section(lengths, heads_q, heads_k, head_dim, l2_bytes));
  p.ticket = -1;
  p.q_aligned = is_aligned(f.q, p.q_stride);
  p.kv_aligned = is_aligned(f.k, p.k_stride) && is_aligned(f.v, p.v_stride);
  return tiles;
}

void launch_forward(const Fa3Forward& f, CUstream stream) {
  const Device& device = Device::get(f.q.device);
  const Decision decision = decide(device.capability, problem_of(f), device.name.c_str());
  Kernel& kernel = *get_build(decision.build).kernels[decision.variant];
  const Fa3Variant& variant = kernel.variant();
  TmaForwardParams params;
  const int64_t tiles = plan_forward(f, variant.block_m, device.l2_bytes, params.forward);
  if (tiles == 0) return;

  const ContextGuard context(device);
  const Driver& driver = Driver::get();
  // Every CUDA API that takes a CUfunction to launch takes a CUkernel.
  const auto function = reinterpret_cast<CUfunction>(kernel.on(device));
  const bool by_tma = variant.tma_columns > 0;
  if (by_tma) {
    fill_tensor_maps(driver, f, variant, params);
    params.forward.ticket = take_ticket(driver, stream);
  }
  CUlaunchConfig config{};
  config.gridDimX = static_cast<unsigned>(by_tma ? std::min<int64_t>(tiles, device.sms) : tiles);
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = static_cast<unsigned>(variant.threads);
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = static_cast<unsigned>(variant.dynamic_shared_bytes);
  config.hStream = stream;
  void* arguments[] = {by_tma ? static_cast<void*>(&params) : &params.forward};
  const CUresult result = driver.cuLaunchKernelEx(&config, function, arguments, nullptr);
  if (result != CUDA_SUCCESS) {
    fail(FA3_DRIVER_ERROR, "launching ", variant.name, " on ", device.name, " failed: ", driver.describe(result),
         ". If it names an earlier fault, run with CUDA_LAUNCH_BLOCKING=1 to find where it comes from");
  }
}

}  // namespace fa3
