// corpus: break
#include <cuda_runtime.h>
#include <texture_fetch_functions.h>
