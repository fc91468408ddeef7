# corpus: break
# at: 6
# nvcc: -gencode=arch=compute_70,code=sm_70
from torch.utils.cpp_extension import CUDAExtension

FLAGS = {"nvcc": ["-gencode=arch=compute_70,code=sm_70", "-gencode=arch=compute_90,code=sm_90"]}
EXTENSION = CUDAExtension("kernels", ["kernels.cu"], extra_compile_args=FLAGS)
