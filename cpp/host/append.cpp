#include <algorithm>

#include "attention/append_params.h"
#include "host/build.h"
#include "host/forward.h"
#include "host/launch.h"
#include "host/tensor_view.h"

namespace fa3 {

void launch_append(const Fa3Append& a, CUstream stream) {
  check_append(a);
  const bool is_paged = a.page_table.rank >= 0;
  const int64_t page_size = size_of(a.k_cache, kRow);
  AppendParams p{};
  p.new_k = a.k.data, p.new_v = a.v.data;
  p.k = const_cast<void*>(a.k_cache.data), p.v = const_cast<void*>(a.v_cache.data);
  p.new_k_stride = strides_of(a.k), p.new_v_stride = strides_of(a.v);
  p.k_stride = strides_of(a.k_cache), p.v_stride = strides_of(a.v_cache);
  p.lengths = indices(a.lengths);
  p.page_table = indices(a.page_table);
  p.page_table_stride = is_paged ? stride_of(a.page_table, 0) : 0;
  p.batch = static_cast<int32_t>(a.k.sizes[0]);
  p.rows = static_cast<int32_t>(size_of(a.k, kRow));
  p.heads = static_cast<int32_t>(size_of(a.k, kHead));
  p.head_dim = static_cast<int32_t>(size_of(a.k, kHeadDim));
  p.capacity = static_cast<int32_t>(is_paged ? page_size * a.page_table.sizes[1] : page_size);
  p.page_size = static_cast<int32_t>(page_size);
  p.num_pages = static_cast<int32_t>(a.k_cache.sizes[0]);
  p.aligned = is_aligned(a.k, p.new_k_stride) && is_aligned(a.v, p.new_v_stride) && is_aligned(a.k_cache, p.k_stride) &&
              is_aligned(a.v_cache, p.v_stride);
  const int64_t chunks = int64_t{p.batch} * p.rows * p.heads * (p.head_dim / 8);
  if (chunks == 0 || p.capacity == 0) return;

  const Device& device = Device::get(a.k.device);
  // Any split-KV kernel's fatbin has the copy: that of one query against a paged cache.
  const Problem problem{a.k.dtype, p.head_dim, FA3_MASK_FULL, FA3_LAYOUT_PAGED, 1, p.capacity};
  const Decision decision = decide(device.capability, problem, device.name.c_str());
  Kernel& kernel = *get_build(decision.build).kernels[decision.variant];
  const ContextGuard context(device);
  const int64_t grid = std::min<int64_t>((chunks + kAppendThreads - 1) / kAppendThreads, int64_t{device.sms} * 32);
  const CUkernel append = kernel.append_on(device);
  launch(device, append, kernel.variant().name, {grid, kAppendThreads, 0, &p, kernel.waits_for_grids_before()}, stream);
}

}  // namespace fa3
