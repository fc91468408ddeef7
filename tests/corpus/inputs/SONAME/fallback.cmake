# corpus: guarded
# documented: https://docs.nvidia.com/cuda/cuda-runtime-api/version-mixing-rules.html
set(RUNTIMES libcudart.so.13 libcudart.so.12)
