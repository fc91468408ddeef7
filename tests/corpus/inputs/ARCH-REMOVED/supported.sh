# corpus: clean
# nvcc: -gencode=arch=compute_75,code=sm_75
nvcc -gencode=arch=compute_75,code=sm_75 -c a.cu
