// corpus: unseen
// witness: static_assert(sizeof(cudaPointerAttributes) == 24, "");
#include <cuda_runtime_api.h>

static_assert(sizeof(cudaPointerAttributes) % 8 == 0, "the bindings rely on it");
