# corpus: latent
# at: 5
# nvcc: -arch=sm_60
if(WITH_PASCAL)
  set(CMAKE_CUDA_ARCHITECTURES 60 80)
endif()
