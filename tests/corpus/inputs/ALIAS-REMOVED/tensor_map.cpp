// corpus: break
#include <cudaTypedefs.h>

PFN_cuTensorMapEncodeTiled encode = nullptr;
PFN_cuTensorMapEncodeTiled_v12000 encode_of_12_0 = nullptr;
