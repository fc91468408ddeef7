# corpus: break
# at: 5
# nvcc: -gencode=arch=compute_60,code=sm_60
nvcc -gencode=arch=compute_80,code=sm_80 -c a.cu
nvcc -gencode=arch=compute_60,code=sm_60 -c b.cu
