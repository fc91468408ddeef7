# corpus: guarded
# documented: https://nvidia.github.io/cuda-python/cuda-bindings/latest/release/13.0.0-notes.html
try:
    from cuda.bindings import runtime as cudart
except ImportError:
    from cuda import cudart

print(cudart)
