# corpus: info
# at: 4
# documented: https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/index.html#options-for-steering-gpu-code-generation
nvcc -O3 -c kernels.cu
