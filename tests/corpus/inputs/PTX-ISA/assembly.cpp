// corpus: info
// at: 6
// documented: https://docs.nvidia.com/cuda/parallel-thread-execution/index.html#release-notes
const char* ptx = R"(
.version 8.4
.target sm_70
.address_size 64
)";
