#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "host/error.h"
#include "host/forward.h"
#include "host/tensor_view.h"

namespace fa3 {
namespace {

// Within these the kernels' softcap * tanh(score / softcap) is right to a thousandth of a score; a larger cap drowns in
// fp32's rounding.
constexpr double kMinSoftcap = 1e-3, kMaxSoftcap = 1e4;

struct Named {
  const char* name;
  const Fa3Tensor& tensor;
};

// By ScalarType number.
std::string dtype_text(int32_t dtype) {
  static constexpr std::array<const char*, 29> kNames = {"uint8",           "int8",
                                                         "int16",           "int32",
                                                         "int64",           "float16",
                                                         "float32",         "float64",
                                                         "complex32",       "complex64",
                                                         "complex128",      "bool",
                                                         "qint8",           "quint8",
                                                         "qint32",          "bfloat16",
                                                         "quint4x2",        "quint2x4",
                                                         "bits1x8",         "bits2x4",
                                                         "bits4x2",         "bits8",
                                                         "bits16",          "float8_e5m2",
                                                         "float8_e4m3fn",   "float8_e5m2fnuz",
                                                         "float8_e4m3fnuz", "uint16",
                                                         "uint32"};
  if (dtype >= 0 && dtype < static_cast<int32_t>(kNames.size())) return kNames[dtype];
  return concat("ScalarType ", dtype);
}

std::string device_text(int32_t device) {
  return device < 0 ? "no CUDA device" : concat("cuda:", device);
}

std::string shape_text(const Fa3Tensor& t) {
  std::ostringstream text;
  text << "(";
  for (int32_t i = 0; i < t.rank; ++i) text << (i == 0 ? "" : ", ") << t.sizes[i];
  text << (t.rank == 1 ? ",)" : ")");
  return std::move(text).str();
}

constexpr const char* kDense = "(batch, seqlen, heads, head_dim)";
constexpr const char* kPacked = "(rows, heads, head_dim)";
constexpr const char* kCache = "(batch, capacity, heads, head_dim)";
constexpr const char* kPaged = "(pages, page_size, heads, head_dim)";

void check_layout(const Named& named, const char* form) {
  const auto& [name, t] = named;
  const int32_t rank = form == kPacked ? 3 : 4;
  if (t.rank != rank) {
    fail(FA3_VALUE_ERROR, name, " has shape ", shape_text(t), "; ", rank, " dimensions are needed: ", form);
  }
  const int64_t head_dim = t.sizes[rank - 1];
  if (head_dim < 8 || head_dim > kMaxHeadDim || head_dim % 8 != 0) {
    fail(FA3_VALUE_ERROR, name, " has head_dim ", head_dim, "; multiples of 8 from 8 to ", kMaxHeadDim,
         " are supported");
  }
  const bool has_elements = std::count(t.sizes, t.sizes + rank, 0) == 0;  // an empty tensor's strides mean nothing
  if (has_elements && t.strides[rank - 1] != 1) {
    fail(FA3_VALUE_ERROR, name, " has stride ", t.strides[rank - 1],
         " in its last dimension, which must be contiguous; call .contiguous()");
  }
  if (t.sizes[rank - 3] > kMaxRows) {
    fail(FA3_VALUE_ERROR, name, " has ", t.sizes[rank - 3], " rows; at most ", kMaxRows, " are supported");
  }
}

void check_dtype(const Named& named, int32_t dtype) {
  if (named.tensor.dtype != dtype) {
    fail(FA3_TYPE_ERROR, named.name, " is ", dtype_text(named.tensor.dtype), "; ", dtype_text(dtype), " is needed",
         dtype == kInt32 ? "" : ", as q");
  }
}

void check_device(const Named& named, int32_t device) {
  if (named.tensor.device != device) {
    fail(FA3_VALUE_ERROR, named.name, " is on ", device_text(named.tensor.device), " but q is on ", device_text(device),
         "; all tensors must be on one CUDA device");
  }
}

void check_indices(const Named& named, int64_t entries, int32_t device) {
  const auto& [name, t] = named;
  if (t.rank < 0) return;
  check_device(named, device);
  check_dtype(named, kInt32);
  if (t.rank != 1 || t.sizes[0] != entries) {
    fail(FA3_VALUE_ERROR, name, " has shape ", shape_text(t), "; (", entries, ",) is needed");
  }
  if (entries > 1 && t.strides[0] != 1) fail(FA3_VALUE_ERROR, name, " must be contiguous; call .contiguous()");
}

void check_same(const char* what, const Named& a, int64_t size_a, const Named& b, int64_t size_b) {
  if (size_a != size_b) {
    fail(FA3_VALUE_ERROR, a.name, " and ", b.name, " differ in ", what, ": ", size_a, " and ", size_b, " (shapes ",
         shape_text(a.tensor), " and ", shape_text(b.tensor), ")");
  }
}

int64_t size_of(const Named& named, int32_t from_end) {
  return named.tensor.sizes[named.tensor.rank - from_end];
}

void check_max_seqlen(const char* name, int64_t value) {
  if (value < 0) fail(FA3_VALUE_ERROR, name, " is ", value, "; it must be at least the longest sequence");
}

void check_cu_seqlens(const Named& named) {
  const auto& [name, t] = named;
  if (t.rank != 1 || t.sizes[0] < 1) {
    fail(FA3_VALUE_ERROR, name, " has shape ", t.rank < 0 ? "None" : shape_text(t), "; (batch + 1,) is needed");
  }
}

// Returns the batch size.
int64_t check_varlen(const Fa3Forward& f) {
  for (const Named& named : {Named{"cu_seqlens_q", f.cu_seqlens_q}, Named{"cu_seqlens_k", f.cu_seqlens_k}}) {
    check_cu_seqlens(named);
  }
  const int64_t batch = f.cu_seqlens_q.sizes[0] - 1;
  check_indices({"cu_seqlens_q", f.cu_seqlens_q}, batch + 1, f.q.device);
  check_indices({"cu_seqlens_k", f.cu_seqlens_k}, batch + 1, f.q.device);
  check_indices({"seqused_q", f.seqused_q}, batch, f.q.device);
  check_indices({"seqused_k", f.seqused_k}, batch, f.q.device);
  check_max_seqlen("max_seqlen_q", f.max_seqlen_q);
  check_max_seqlen("max_seqlen_k", f.max_seqlen_k);
  return batch;
}

// A cache, paged or not, and how many keys of each entry count.
void check_cache(const Named& cache, const Named& lengths, const Fa3Tensor& page_table, int64_t batch, int32_t device) {
  check_indices(lengths, batch, device);
  if (page_table.rank < 0) {
    if (cache.tensor.sizes[0] != batch) {
      fail(FA3_VALUE_ERROR, cache.name, " has ", cache.tensor.sizes[0], " batch entries and q or k ", batch);
    }
    return;
  }
  const Named table{"page_table", page_table};
  check_device(table, device);
  check_dtype(table, kInt32);
  if (page_table.rank != 2 || page_table.sizes[0] != batch) {
    fail(FA3_VALUE_ERROR, "page_table has shape ", shape_text(page_table), "; (", batch,
         ", pages of an entry) is needed");
  }
  const int64_t pages = page_table.sizes[1];
  if (pages > 1 && page_table.strides[1] != 1) {
    fail(FA3_VALUE_ERROR, "page_table must be contiguous in its last dimension; call .contiguous()");
  }
  const int64_t page_size = cache.tensor.sizes[1];
  if (page_size < 1) fail(FA3_VALUE_ERROR, cache.name, " has pages of ", page_size, " rows; at least 1 is needed");
  if (pages > kMaxRows / page_size) {
    fail(FA3_VALUE_ERROR, "page_table gives an entry ", pages, " pages of ", page_size, " rows; at most ", kMaxRows,
         " rows are supported");
  }
  if (pages > 0 && cache.tensor.sizes[0] < 1) fail(FA3_VALUE_ERROR, cache.name, " has no pages");
  if (cache.tensor.sizes[0] > std::numeric_limits<int32_t>::max()) {
    fail(FA3_VALUE_ERROR, cache.name, " has ", cache.tensor.sizes[0], " pages; at most 2^31 - 1 are supported");
  }
}

// Returns the batch size.
int64_t check_kv_cache(const Fa3Forward& f) {
  int64_t batch = f.q.sizes[0];
  if (f.cu_seqlens_q.rank >= 0) {
    check_cu_seqlens({"cu_seqlens_q", f.cu_seqlens_q});
    batch = f.cu_seqlens_q.sizes[0] - 1;
    check_indices({"cu_seqlens_q", f.cu_seqlens_q}, batch + 1, f.q.device);
    check_max_seqlen("max_seqlen_q", f.max_seqlen_q);
  }
  for (const Named& cache : {Named{"k_cache", f.k}, Named{"v_cache", f.v}}) {
    check_cache(cache, {"cache_seqlens", f.seqused_k}, f.page_table, batch, f.q.device);
  }
  if (f.new_rows < 0 || f.new_rows > kMaxRows) fail(FA3_VALUE_ERROR, "k has ", f.new_rows, " new rows");
  return batch;
}

}  // namespace

void check_forward(const Fa3Forward& f) {
  const bool is_cache = f.kind == FA3_CACHE;
  const Named q{"q", f.q}, k{is_cache ? "k_cache" : "k", f.k}, v{is_cache ? "v_cache" : "v", f.v};
  if (f.q.device < 0) fail(FA3_VALUE_ERROR, "q is on no CUDA device; move the tensors to one with .cuda()");
  if (f.q.dtype != kFloat16 && f.q.dtype != kBFloat16) {
    fail(FA3_TYPE_ERROR, "q is ", dtype_text(f.q.dtype), "; float16 and bfloat16 are supported");
  }
  for (const Named& named : {k, v}) {
    check_device(named, f.q.device);
    check_dtype(named, f.q.dtype);
  }
  check_layout(q, f.cu_seqlens_q.rank >= 0 || f.kind == FA3_VARLEN ? kPacked : kDense);
  for (const Named& named : {k, v}) {
    check_layout(named, f.kind == FA3_VARLEN     ? kPacked
                        : not is_cache           ? kDense
                        : f.page_table.rank >= 0 ? kPaged
                                                 : kCache);
  }
  check_same("head_dim", q, size_of(q, 1), k, size_of(k, 1));
  check_same("head_dim", q, size_of(q, 1), v, size_of(v, 1));
  check_same("heads", k, size_of(k, 2), v, size_of(v, 2));
  check_same(f.kind == FA3_VARLEN ? "rows" : "seqlen", k, size_of(k, 3), v, size_of(v, 3));
  const int64_t heads_q = size_of(q, 2);
  const int64_t heads_k = size_of(k, 2);
  if (heads_q < 1 || heads_k < 1 || heads_q % heads_k != 0) {
    fail(FA3_VALUE_ERROR, "q has ", heads_q, " heads and ", k.name, " ", heads_k,
         "; q's must be a positive multiple of k's");
  }
  int64_t batch = f.q.sizes[0];
  if (f.kind == FA3_VARLEN) {
    batch = check_varlen(f);
  } else if (is_cache) {
    batch = check_kv_cache(f);
    check_same(f.page_table.rank >= 0 ? "pages" : "batch", k, f.k.sizes[0], v, f.v.sizes[0]);
  } else {
    check_same("batch", q, f.q.sizes[0], k, f.k.sizes[0]);
    check_same("batch", q, f.q.sizes[0], v, f.v.sizes[0]);
  }
  if (batch > std::numeric_limits<int32_t>::max() / heads_q) {
    fail(FA3_VALUE_ERROR, "batch ", batch, " x ", heads_q, " heads exceed 2^31 - 1; split the batch");
  }
  if (f.num_splits < 0)
    fail(FA3_VALUE_ERROR, "num_splits is ", f.num_splits, "; 0 (chosen), 1 (none) or more are allowed");
  if (!std::isfinite(static_cast<float>(f.softmax_scale))) {
    fail(FA3_VALUE_ERROR, "softmax_scale is ", f.softmax_scale, "; it must be a finite float32");
  }
  if (!(f.softcap == 0 || (kMinSoftcap <= f.softcap && f.softcap <= kMaxSoftcap))) {
    fail(FA3_VALUE_ERROR, "softcap is ", f.softcap, "; it must be 0 (off) or from ", kMinSoftcap, " to ", kMaxSoftcap);
  }
}

void check_append(const Fa3Append& a) {
  const Named k{"k", a.k}, v{"v", a.v}, k_cache{"k_cache", a.k_cache}, v_cache{"v_cache", a.v_cache};
  if (a.k.device < 0) fail(FA3_VALUE_ERROR, "k is on no CUDA device; move the tensors to one with .cuda()");
  if (a.k.dtype != kFloat16 && a.k.dtype != kBFloat16) {
    fail(FA3_TYPE_ERROR, "k is ", dtype_text(a.k.dtype), "; float16 and bfloat16 are supported");
  }
  for (const Named& named : {v, k_cache, v_cache}) {
    if (named.tensor.device != a.k.device) {
      fail(FA3_VALUE_ERROR, named.name, " is on ", device_text(named.tensor.device), " but k is on ",
           device_text(a.k.device), "; all tensors must be on one CUDA device");
    }
    if (named.tensor.dtype != a.k.dtype) {
      fail(FA3_TYPE_ERROR, named.name, " is ", dtype_text(named.tensor.dtype), "; ", dtype_text(a.k.dtype),
           " is needed, as k");
    }
  }
  for (const Named& named : {k, v}) check_layout(named, kDense);
  for (const Named& named : {k_cache, v_cache}) check_layout(named, a.page_table.rank >= 0 ? kPaged : kCache);
  for (const Named& named : {v, k_cache, v_cache}) {
    check_same("heads", k, size_of(k, 2), named, size_of(named, 2));
    check_same("head_dim", k, size_of(k, 1), named, size_of(named, 1));
  }
  check_same("batch", k, a.k.sizes[0], v, a.v.sizes[0]);
  check_same("rows", k, a.k.sizes[1], v, a.v.sizes[1]);
  check_same("rows", k_cache, size_of(k_cache, 3), v_cache, size_of(v_cache, 3));
  check_same(a.page_table.rank >= 0 ? "pages" : "batch", k_cache, a.k_cache.sizes[0], v_cache, a.v_cache.sizes[0]);
  if (a.lengths.rank < 0) fail(FA3_VALUE_ERROR, "cache_seqlens is needed to append k and v: where shall they go?");
  for (const Named& cache : {k_cache, v_cache}) {
    check_cache(cache, {"cache_seqlens", a.lengths}, a.page_table, a.k.sizes[0], a.k.device);
  }
}

}  // namespace fa3
