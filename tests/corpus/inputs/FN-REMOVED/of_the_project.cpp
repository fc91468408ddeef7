// corpus: clean
#include <cuda_runtime_api.h>

namespace pool {
struct Thread {
  void cudaThreadExit() {}
};
}  // namespace pool

// cudaThreadExit() of the toolkit is gone.
const char* text = "cudaThreadExit()";
void leave(pool::Thread& thread) { thread.cudaThreadExit(); }
