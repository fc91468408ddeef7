# corpus: break
# at: 4 5
# documented: https://nvidia.github.io/cuda-python/cuda-bindings/latest/release/13.0.0-notes.html
import cuda.nvrtc as nvrtc
from cuda import cudart
from cuda.bindings import driver

print(cudart, nvrtc, driver)
