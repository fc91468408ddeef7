// corpus: break
// at: 7
// nvcc: -arch=compute_70
#include <vector>

// For NVRTC.
std::vector<const char*> options() { return {"--gpu-architecture=compute_70", "--std=c++17"}; }
