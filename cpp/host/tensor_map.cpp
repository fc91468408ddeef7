#include "host/tensor_map.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "host/error.h"
#include "host/selection.h"

namespace fa3 {
namespace {

constexpr int32_t kElementBytes = 2;
constexpr int32_t kTmaAlignment = 16;                  // of addresses and strides, bytes
constexpr int64_t kTmaStrideLimit = int64_t{1} << 40;  // bytes
constexpr size_t kCachedMaps = 512;                    // four a call: 128 layers' worth, 128 KiB a thread
constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;  // multiplicative hashing

// The driver writes to addresses aligned as its own type says; TMA reads from multiples of 64.
static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));

struct View {
  const void* data;
  std::array<uint64_t, 4> sizes;    // head_dim, row, head, batch entry
  std::array<uint64_t, 3> strides;  // bytes, of all but head_dim
  std::array<uint32_t, 2> box;      // columns, rows
  int32_t dtype;

  bool operator==(const View&) const = default;

  size_t hash() const {
    uint64_t h = reinterpret_cast<uintptr_t>(data);
    for (const uint64_t value : {sizes[1], sizes[3], strides[0], uint64_t{box[1]}}) h = (h ^ value) * kGoldenRatio;
    return h >> 32;
  }
};

// No load goes to a tensor without elements, whose address may be null: its map describes one element of `stand_in`.
View view_of(const Fa3Tensor& t, const Fa3Tensor& stand_in, int32_t columns, int32_t rows) {
  View view{t.data, {1, 1, 1, 1}, {}, {static_cast<uint32_t>(columns), static_cast<uint32_t>(rows)}, t.dtype};
  // A dimension of one index has no stride that matters, but must have a legal one: at least a row.
  view.strides.fill(std::max<uint64_t>(t.sizes[t.rank - 1] * kElementBytes, kTmaAlignment));
  const int32_t from_torch[] = {t.rank - 1, t.rank - 3, t.rank - 2, t.rank - 4};
  for (int32_t i = 0; i < t.rank; ++i) {
    const int32_t dim = from_torch[i];
    if (t.sizes[dim] == 0) view.data = stand_in.data;
    view.sizes[i] = static_cast<uint64_t>(std::max<int64_t>(t.sizes[dim], 1));
    if (i > 0 && t.sizes[dim] > 1) view.strides[i - 1] = static_cast<uint64_t>(t.strides[dim] * kElementBytes);
  }
  return view;
}

// Of q's shape, but contiguous.
View output_view(const Fa3Forward& f, const Strides& strides, int32_t columns) {
  View view = view_of(f.q, f.q, columns, kQueryBoxRows);
  view.data = f.out;
  const int64_t from_rows[] = {strides.row, strides.head, strides.batch};
  for (size_t i = 0; i < view.strides.size(); ++i) {
    if (view.sizes[i + 1] > 1) view.strides[i] = static_cast<uint64_t>(from_rows[i] * kElementBytes);
  }
  return view;
}

TensorMap encode(const Driver& driver, const View& view) {
  constexpr std::array<uint32_t, 4> kEveryElement = {1, 1, 1, 1};
  const std::array<uint32_t, 4> box = {view.box[0], view.box[1], 1, 1};
  CUtensorMap map;
  driver.check(driver.cuTensorMapEncodeTiled(
                   &map, view.dtype == kBFloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                   view.sizes.size(), const_cast<void*>(view.data), view.sizes.data(), view.strides.data(), box.data(),
                   kEveryElement.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                   view.box[0] == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
               "cuTensorMapEncodeTiled");
  TensorMap copy;
  std::copy_n(map.opaque, std::size(copy.opaque), copy.opaque);
  return copy;
}

struct CachedMap {
  View view;
  TensorMap map;
};

const TensorMap& cached(const Driver& driver, const View& view) {
  thread_local std::array<CachedMap, kCachedMaps> cache{};  // zero: no view is, for none has a size of 0
  CachedMap& entry = cache[view.hash() % kCachedMaps];
  if (entry.view != view) entry = {view, encode(driver, view)};
  return entry.map;
}

}  // namespace

bool is_tma_layout(const Fa3Tensor& t) {
  if (reinterpret_cast<uintptr_t>(t.data) % kTmaAlignment != 0) return false;
  for (int32_t dim = 0; dim < t.rank - 1; ++dim) {
    const int64_t stride = t.strides[dim];
    const int64_t least = dim == t.rank - 3 ? t.sizes[t.rank - 1] : 1;  // rows may not overlap
    if (t.sizes[dim] > 1 && (stride < least || stride % (kTmaAlignment / kElementBytes) != 0 ||
                             stride >= kTmaStrideLimit / kElementBytes)) {
      return false;
    }
  }
  return true;
}

void fill_tensor_maps(const Driver& driver, const Fa3Forward& f, const Fa3Variant& variant, TmaForwardParams& params) {
  params.q = cached(driver, view_of(f.q, f.q, variant.tma_columns, kQueryBoxRows));
  const bool is_paged = f.page_table.rank >= 0;
  const int32_t keys = is_paged ? std::min(variant.block_n, params.forward.page_size) : variant.block_n;
  params.k = cached(driver, view_of(f.k, f.q, variant.tma_columns, keys));
  params.v = cached(driver, view_of(f.v, f.q, variant.tma_columns, keys));
  params.out = cached(driver, output_view(f, params.forward.out_stride, variant.tma_columns));
}

}  // namespace fa3
