# corpus: break
# at: 6
# documented: https://docs.nvidia.com/cuda/cuda-runtime-api/version-mixing-rules.html
import ctypes

runtime = ctypes.CDLL("libcudart.so.12")
