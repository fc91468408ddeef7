# corpus: break
# at: 4
# documented: https://docs.nvidia.com/cuda/cuda-installation-guide-linux/index.html#host-compiler-support-policy
nvcc -ccbin icc -arch=sm_80 -c a.cu
