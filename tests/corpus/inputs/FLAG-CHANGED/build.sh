# corpus: break
# at: 4
# documented: https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/index.html
nvcc -r -arch=sm_80 a.o b.o -o ab.o
