// The host library's C interface: what Python (ctypes) and the torch operators call.
//
// No function throws. One that fails returns a status other than FA3_OK (or a negative handle or index) and leaves a
// message for fa3_last_error(), per thread. Nothing here touches the driver unless its comment says so, so that a
// machine without a GPU can load, inspect and test it.
#pragma once

#include <stdint.h>

#define FA3_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

// The kind of an error; Python raises the exception of that kind.
enum Fa3Status {
  FA3_OK = 0,
  FA3_VALUE_ERROR = 1,
  FA3_TYPE_ERROR = 2,
  FA3_DRIVER_ERROR = 3,     // no driver, too old, or it refused a call
  FA3_NO_KERNEL_ERROR = 4,  // no active build serves this GPU and problem
  FA3_BUILD_ERROR = 5,      // a build folder is incomplete or contradicts itself
  FA3_INTERNAL_ERROR = 6,
};

// Mask classes, also bits of Fa3Serves::masks.
enum Fa3Mask { FA3_MASK_FULL = 0, FA3_MASK_CAUSAL = 1, FA3_MASK_LOCAL = 2 };

// How q, k and v lie in memory, also bits of Fa3Serves::layouts. Aligned: TMA can describe them, that is base pointers
// are multiples of 16 bytes and every stride of a dimension longer than 1 is a positive multiple of 16 bytes below 2^40,
// of rows at least a row. Paged: k and v come with a page table. Paged and aligned: the tensors are aligned, and pages
// make up blocks of 64 or 128 keys or the other way round, that is page_size is 8, 16, 32, 64 or a multiple of 128.
enum Fa3Layout {
  FA3_LAYOUT_ALIGNED = 0,
  FA3_LAYOUT_UNALIGNED = 1,
  FA3_LAYOUT_PAGED = 2,
  FA3_LAYOUT_PAGED_ALIGNED = 3,
};

FA3_API const char* fa3_last_error(void);
FA3_API int32_t fa3_last_status(void);

// kForwardAbiVersion of attention/forward_params.h: kernels of another version must not be launched.
FA3_API int32_t fa3_forward_abi_version(void);

// --- builds ---------------------------------------------------------------------------------------------------------

typedef struct Fa3Variant {
  const char* name;    // of the kernel in the fatbin
  const char* fatbin;  // absolute path; read when the variant is first launched
  int32_t dtype;       // number of the torch ScalarType: 5 float16, 15 bfloat16
  int32_t head_dim;    // compiled
  int32_t block_m;
  int32_t block_n;
  int32_t threads;
  int32_t dynamic_shared_bytes;
  int32_t tma_columns;  // of the boxes that it loads by TMA; 0: it doesn't, see attention/variant_info.h
  int32_t splits_keys;  // 1: a split-KV kernel, see attention/variant_info.h
} Fa3Variant;

// A set of problem classes.
typedef struct Fa3Serves {
  int32_t log2_seqlen_q[2];  // range of ceil(log2(query rows)), inclusive, in 0..16
  int32_t log2_seqlen_k[2];
  int32_t masks;    // bit 1 << Fa3Mask
  int32_t layouts;  // bit 1 << Fa3Layout
} Fa3Serves;

// Capabilities are 10 * major + minor, both ends inclusive. Returns a handle, valid for the life of the process. Fails
// for a build whose kernels take parameters of another version than fa3_forward_abi_version().
FA3_API int32_t fa3_build_create(const char* name, int32_t forward_abi, int32_t min_capability, int32_t max_capability,
                                 int32_t is_ptx);
// Returns the variant's index. It serves nothing before a set is added to it.
FA3_API int32_t fa3_build_add_variant(int32_t build, const Fa3Variant* variant);
// Adds a set to those whose union the variant serves.
FA3_API int32_t fa3_build_add_serves(int32_t build, int32_t variant, const Fa3Serves* serves);
// Fills the selection table; fails if two sets hold one class. The build can't change afterwards.
FA3_API int32_t fa3_build_finish(int32_t build);
// The variant of a finished build that serves the class, whose query_rows are as in host/selection.h; -1 if none does.
FA3_API int32_t fa3_select(int32_t build, int32_t dtype, int32_t head_dim, int32_t mask, int32_t layout,
                           int64_t query_rows, int64_t seqlen_k, int32_t* variant);

// The builds that calls use from now on, in order of preference. Cheap; for the whole process.
FA3_API int32_t fa3_activate(const int32_t* builds, int32_t count);
// The first active build that runs on `capability` and serves the class.
FA3_API int32_t fa3_decide(int32_t capability, int32_t dtype, int32_t head_dim, int32_t mask, int32_t layout,
                           int64_t query_rows, int64_t seqlen_k, int32_t* build, int32_t* variant);

// --- attention ------------------------------------------------------------------------------------------------------

typedef struct Fa3Tensor {
  const void* data;
  const int64_t* sizes;
  const int64_t* strides;  // elements
  int32_t rank;            // -1: the tensor was not given
  int32_t dtype;           // number of the torch ScalarType
  int32_t device;          // CUDA ordinal, -1: not on a CUDA device
} Fa3Tensor;

// What a call is of, by which its tensors' shapes are read.
enum Fa3Kind {
  FA3_DENSE = 0,   // q, k, v (batch, seqlen, heads, head_dim)
  FA3_VARLEN = 1,  // q, k, v (rows, heads, head_dim), cu_seqlens_q and cu_seqlens_k
  // q dense, or packed with cu_seqlens_q; k, v (batch, capacity, heads, head_dim), or with page_table (pages,
  // page_size, heads, head_dim). seqused_k (optional) plus new_rows keys of an entry count, at most its capacity.
  FA3_CACHE = 2,
};

typedef struct Fa3Forward {
  Fa3Tensor q, k, v;
  // int32; (batch + 1), (batch) and (batch, pages of an entry).
  Fa3Tensor cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, page_table;
  int32_t kind;  // Fa3Kind
  int32_t causal;
  int64_t max_seqlen_q, max_seqlen_k;  // of packed tensors
  int64_t window_left, window_right;   // negative: no limit
  int64_t new_rows;                    // cache only
  int64_t num_splits;                  // at most so many; 0: as suits the shapes. Kernels that don't split ignore it
  double softmax_scale;
  double softcap;   // 0: off
  void* out;        // as q, contiguous; not read by fa3_check
  void* lse;        // float32 (batch, heads, seqlen), packed (heads, rows); contiguous; or null: not wanted
  void* workspace;  // of fa3_workspace bytes, aligned to 16
  int64_t workspace_bytes;
} Fa3Forward;

// Everything about the arguments that can be checked without reading device memory. Doesn't touch the driver.
FA3_API int32_t fa3_check(const Fa3Forward* forward);
// Bytes of device memory that fa3_forward needs besides, until the work is done; 0 if num_splits is 1. Uses the driver.
FA3_API int32_t fa3_workspace(const Fa3Forward* forward, int64_t* bytes);
// Enqueues the attention of arguments that fa3_check has passed. Loads the kernel at its first use, never synchronises,
// allocates no device memory itself. Uses the driver.
FA3_API int32_t fa3_forward(const Fa3Forward* forward, void* stream);

typedef struct Fa3Append {
  Fa3Tensor k_cache, v_cache;  // as k and v of FA3_CACHE; written
  Fa3Tensor k, v;              // (batch, new rows, heads, head_dim)
  Fa3Tensor lengths;           // int32 (batch): new row i of entry b becomes its key lengths[b] + i
  Fa3Tensor page_table;
} Fa3Append;

// Checks the arguments and enqueues the copy of new rows into a cache. Rows past an entry's capacity and pages that the
// cache doesn't have are dropped. Uses the driver.
FA3_API int32_t fa3_append(const Fa3Append* append, void* stream);

// What fa3_forward would launch on a GPU with that many SMs, from one build: the variant's index, its fa3::ForwardParams
// (the ticket and splits aside, which a launch decides) and how many tiles its grid works off (0: nothing to launch).
// Doesn't touch the driver.
FA3_API int32_t fa3_plan(const Fa3Forward* forward, int32_t build, int32_t sms, void* params, int64_t params_bytes,
                         int32_t* variant, int64_t* tiles);

// How many CTAs should share a tile's keys: `requested` or, if that is 0, what ends soonest by a model of `tiles` tiles
// of `key_blocks` blocks each on a GPU whose `sms` run `ctas_of_sm` CTAs each (both at least 1). Doesn't touch the
// driver.
FA3_API int32_t fa3_choose_splits(int64_t requested, int64_t tiles, int64_t key_blocks, int64_t sms,
                                  int64_t ctas_of_sm);

// --- driver ---------------------------------------------------------------------------------------------------------

// 1000 * major + 10 * minor of the newest CUDA that the driver supports. Uses the driver.
FA3_API int32_t fa3_driver_version(int32_t* version);
// Uses the driver.
FA3_API int32_t fa3_device_capability(int32_t device, int32_t* capability);

#ifdef __cplusplus
}
#endif
