// Asks for the edges of a graph without room for their data: of one whose edges have none, and of one whose edge has.
#include "kernels.h"
#include "probe.h"

// The plain names take the edges' data since 13.0; before, they had no parameter for it.
#if CUDART_VERSION >= 13000
#define WITHOUT_DATA nullptr,
#define ADD_WITH_DATA cudaGraphAddDependencies
#else
#define WITHOUT_DATA
#define ADD_WITH_DATA cudaGraphAddDependencies_v2
#endif

int main() {
  probe::require_device();
  probe::load_kernels();
  probe::Record record;
  for (const bool has_data : {false, true}) {
    cudaGraph_t graph;
    REQUIRE(cudaGraphCreate(&graph, 0));
    cudaKernelNodeParams kernel{};
    kernel.func = probe::empty_kernel();
    kernel.gridDim = kernel.blockDim = dim3(1);
    cudaGraphNode_t first;
    cudaGraphNode_t second;
    REQUIRE(cudaGraphAddKernelNode(&first, graph, nullptr, 0, &kernel));
    REQUIRE(cudaGraphAddKernelNode(&second, graph, nullptr, 0, &kernel));
    cudaGraphEdgeData data{};
    if (has_data) {
      data.from_port = cudaGraphKernelNodePortProgrammatic;
      data.type = cudaGraphDependencyTypeProgrammatic;
    }
    const cudaError_t added = ADD_WITH_DATA(graph, &first, &second, &data, 1);
    if (added != cudaSuccess) {
      record.observe(has_data ? "adding an edge with data" : "adding an edge", probe::name_of(added));
      continue;
    }

    cudaGraphNode_t from[1];
    cudaGraphNode_t to[1];
    const auto observe = [&](const char* name, auto call) {
      size_t number = 1;  // room for the only edge
      record.observe(std::string(name) + (has_data ? ", an edge has data" : ", no edge has data"),
                     probe::name_of(call(&number)));
      cudaGetLastError();
    };
    observe("cudaGraphGetEdges", [&](size_t* n) { return cudaGraphGetEdges(graph, from, to, WITHOUT_DATA n); });
    observe("cudaGraphGetEdges for the number alone",
            [&](size_t* n) { return cudaGraphGetEdges(graph, nullptr, nullptr, WITHOUT_DATA n); });
    observe("cudaGraphNodeGetDependencies",
            [&](size_t* n) { return cudaGraphNodeGetDependencies(second, from, WITHOUT_DATA n); });
    observe("cudaGraphNodeGetDependentNodes",
            [&](size_t* n) { return cudaGraphNodeGetDependentNodes(first, to, WITHOUT_DATA n); });
    observe("cuGraphGetEdges", [&](size_t* n) { return DRIVER(cuGraphGetEdges)(graph, from, to, WITHOUT_DATA n); });
    REQUIRE(cudaGraphDestroy(graph));
  }
  record.print();
}
