# corpus: suppressed
# at: 5
# nvcc: -arch=sm_70
# fa3-migrate: ignore[ARCH-REMOVED] the image for Volta is built by 12.4
set(CMAKE_CUDA_ARCHITECTURES 70)
