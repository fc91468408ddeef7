// corpus: break
#include <cuda_runtime_api.h>

void connect(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to) {
  cudaGraphAddDependencies(graph, from, to, 1);
}
