// corpus: break
// at: 6
// documented: https://docs.nvidia.com/cuda/cuda-runtime-api/version-mixing-rules.html
#include <dlfcn.h>

void* load() { return dlopen("libcudart.so.12", RTLD_NOW); }
