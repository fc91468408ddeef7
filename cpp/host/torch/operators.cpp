// The operators of torch.ops.fa3, through LibTorch's stable ABI only: one binary for every torch >= 2.10.
//
// A library of its own beside libfa3_host.so: registration happens in static initialisers that need torch's symbols,
// and the host library must load without torch.
#include <dlfcn.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>

#include "host/c_api.h"

namespace {

using torch::stable::Tensor;

// std::invalid_argument becomes Python's ValueError on its way through torch, anything else RuntimeError, which
// fa3_matrix turns into the exception that fa3_last_status() names.
void require(int32_t status) {
  if (status == FA3_OK) return;
  const std::string message = fa3_last_error();
  if (status == FA3_VALUE_ERROR) throw std::invalid_argument(message);
  throw std::runtime_error(message);
}

Fa3Tensor describe(const Tensor& tensor) {
  const auto sizes = tensor.sizes();
  Fa3Tensor d{};
  d.data = tensor.data_ptr();
  d.sizes = sizes.data();
  d.strides = tensor.strides().data();
  d.rank = static_cast<int32_t>(sizes.size());
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &d.dtype));
  d.device = tensor.is_cuda() ? tensor.get_device_index() : -1;
  return d;
}

// The kernel needs a contiguous last dimension; one that isn't is copied, as FlashAttention does.
Tensor contiguous_rows(const Tensor& tensor) {
  const int64_t rank = tensor.dim();
  if (rank == 0 || tensor.strides()[rank - 1] == 1) return tensor;
  return torch::stable::contiguous(tensor);
}

Fa3Tensor describe(const std::optional<Tensor>& tensor) {
  if (tensor.has_value()) return describe(*tensor);
  Fa3Tensor absent{};
  absent.rank = -1;
  return absent;
}

// The shim lives in libtorch_cuda.so, which CPU builds of torch lack: looked up when the first CUDA tensor comes.
void* current_stream(int32_t device) {
  using CurrentStream = AOTITorchError (*)(int32_t, void**);
  static const auto function = reinterpret_cast<CurrentStream>([]() -> void* {
    void* library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    return library == nullptr ? nullptr : dlsym(library, "aoti_torch_get_current_cuda_stream");
  }());
  void* stream = nullptr;
  if (function == nullptr || function(device, &stream) != TORCH_SUCCESS) {
    throw std::runtime_error("torch gives no current CUDA stream; is this a CUDA build of torch?");
  }
  return stream;
}

template <size_t Rank>
Tensor empty(const char* name, const std::array<int64_t, Rank>& sizes, int32_t dtype, int32_t device) {
  std::array<int64_t, Rank> strides;
  int64_t stride = 1;
  for (size_t i = Rank; i-- > 0;) {
    strides[i] = stride;
    stride *= sizes[i] > 1 ? sizes[i] : 1;  // as torch.empty
  }
  // Straight to the allocator: a dispatched aten::empty costs a microsecond more.
  AtenTensorHandle handle = nullptr;
  if (aoti_torch_empty_strided(Rank, sizes.data(), strides.data(), dtype, aoti_torch_device_type_cuda(), device,
                               &handle) != TORCH_SUCCESS) {
    // The stable ABI drops torch's own exception (it is printed); fa3_matrix makes an OutOfMemoryError of this text.
    throw std::runtime_error("CUDA out of memory: torch could not allocate " + std::string(name) + " of " +
                             std::to_string(stride) + " elements on cuda:" + std::to_string(device));
  }
  return Tensor(handle);
}

// q, k and v as given or copied, which the description points into.
struct Call {
  Tensor q, k, v;
  Fa3Forward f{};

  Call(const Tensor& any_q, const Tensor& any_k, const Tensor& any_v, Fa3Kind kind, double softmax_scale, bool causal,
       int64_t window_left, int64_t window_right, double softcap, int64_t num_splits)
      : q(contiguous_rows(any_q)), k(contiguous_rows(any_k)), v(contiguous_rows(any_v)) {
    f.q = describe(q);
    f.k = describe(k);
    f.v = describe(v);
    f.cu_seqlens_q.rank = f.cu_seqlens_k.rank = f.seqused_q.rank = f.seqused_k.rank = f.page_table.rank = -1;
    f.kind = kind;
    f.causal = causal;
    f.window_left = window_left;
    f.window_right = window_right;
    f.softmax_scale = softmax_scale;
    f.softcap = softcap;
    f.num_splits = num_splits;
  }

  std::tuple<Tensor, Tensor> run() {
    require(fa3_check(&f));
    const int64_t* s = f.q.sizes;
    const int32_t device = f.q.device, float32 = aoti_torch_dtype_float32();
    const bool is_packed = f.q.rank == 3;
    Tensor out = is_packed ? empty<3>("out", {s[0], s[1], s[2]}, f.q.dtype, device)
                           : empty<4>("out", {s[0], s[1], s[2], s[3]}, f.q.dtype, device);
    Tensor lse = is_packed ? empty<2>("softmax_lse", {s[1], s[0]}, float32, device)
                           : empty<3>("softmax_lse", {s[0], s[2], s[1]}, float32, device);
    f.out = out.data_ptr();
    f.lse = lse.data_ptr();
    std::optional<Tensor> workspace;  // back to the allocator at once: its next user comes later on this stream
    if (f.num_splits != 1) {
      int64_t bytes = 0;
      require(fa3_workspace(&f, &bytes));
      if (bytes > 0) {
        workspace = empty<1>("workspace", {bytes / 4}, float32, device);
        f.workspace = workspace->data_ptr();
        f.workspace_bytes = bytes;
      }
    }
    require(fa3_forward(&f, current_stream(device)));
    return {std::move(out), std::move(lse)};
  }
};

std::tuple<Tensor, Tensor> fwd(const Tensor& q, const Tensor& k, const Tensor& v, double softmax_scale, bool causal,
                               int64_t window_left, int64_t window_right, double softcap, int64_t num_splits) {
  return Call(q, k, v, FA3_DENSE, softmax_scale, causal, window_left, window_right, softcap, num_splits).run();
}

std::tuple<Tensor, Tensor> varlen_fwd(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& cu_seqlens_q,
                                      const Tensor& cu_seqlens_k, std::optional<Tensor> seqused_q,
                                      std::optional<Tensor> seqused_k, int64_t max_seqlen_q, int64_t max_seqlen_k,
                                      double softmax_scale, bool causal, int64_t window_left, int64_t window_right,
                                      double softcap, int64_t num_splits) {
  Call call(q, k, v, FA3_VARLEN, softmax_scale, causal, window_left, window_right, softcap, num_splits);
  call.f.cu_seqlens_q = describe(cu_seqlens_q);
  call.f.cu_seqlens_k = describe(cu_seqlens_k);
  call.f.seqused_q = describe(seqused_q);
  call.f.seqused_k = describe(seqused_k);
  call.f.max_seqlen_q = max_seqlen_q;
  call.f.max_seqlen_k = max_seqlen_k;
  return call.run();
}

std::tuple<Tensor, Tensor> kvcache_fwd(const Tensor& q, const Tensor& k_cache, const Tensor& v_cache,
                                       std::optional<Tensor> cache_seqlens, std::optional<Tensor> page_table,
                                       std::optional<Tensor> cu_seqlens_q, int64_t max_seqlen_q, int64_t new_rows,
                                       double softmax_scale, bool causal, int64_t window_left, int64_t window_right,
                                       double softcap, int64_t num_splits) {
  Call call(q, k_cache, v_cache, FA3_CACHE, softmax_scale, causal, window_left, window_right, softcap, num_splits);
  call.f.seqused_k = describe(cache_seqlens);
  call.f.page_table = describe(page_table);
  call.f.cu_seqlens_q = describe(cu_seqlens_q);
  call.f.max_seqlen_q = max_seqlen_q;
  call.f.new_rows = new_rows;
  return call.run();
}

void append_kv(const Tensor& k_cache, const Tensor& v_cache, const Tensor& any_k, const Tensor& any_v,
               const Tensor& cache_seqlens, std::optional<Tensor> page_table) {
  const Tensor k = contiguous_rows(any_k), v = contiguous_rows(any_v);
  const Fa3Append append{describe(k_cache), describe(v_cache),       describe(k),
                         describe(v),       describe(cache_seqlens), describe(page_table)};
  require(fa3_append(&append, current_stream(append.k.device)));
}

}  // namespace

STABLE_TORCH_LIBRARY(fa3, m) {
  m.def(
      "fwd(Tensor q, Tensor k, Tensor v, float softmax_scale, bool causal, int window_left, int window_right, "
      "float softcap, int num_splits) -> (Tensor, Tensor)");
  m.def(
      "varlen_fwd(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor cu_seqlens_k, Tensor? seqused_q, "
      "Tensor? seqused_k, int max_seqlen_q, int max_seqlen_k, float softmax_scale, bool causal, int window_left, "
      "int window_right, float softcap, int num_splits) -> (Tensor, Tensor)");
  m.def(
      "kvcache_fwd(Tensor q, Tensor k_cache, Tensor v_cache, Tensor? cache_seqlens, Tensor? page_table, "
      "Tensor? cu_seqlens_q, int max_seqlen_q, int new_rows, float softmax_scale, bool causal, int window_left, "
      "int window_right, float softcap, int num_splits) -> (Tensor, Tensor)");
  m.def(
      "append_kv(Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor k, Tensor v, Tensor cache_seqlens, "
      "Tensor? page_table) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(fa3, CUDA, m) {
  m.impl("fwd", TORCH_BOX(&fwd));
  m.impl("varlen_fwd", TORCH_BOX(&varlen_fwd));
  m.impl("kvcache_fwd", TORCH_BOX(&kvcache_fwd));
  m.impl("append_kv", TORCH_BOX(&append_kv));
}
