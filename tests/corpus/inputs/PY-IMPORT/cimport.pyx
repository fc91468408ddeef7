# corpus: break
# at: 4
# documented: https://nvidia.github.io/cuda-python/cuda-bindings/latest/release/13.0.0-notes.html
from cuda.ccudart cimport cudaMalloc
