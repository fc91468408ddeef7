# corpus: break
# at: 4
# documented: https://docs.nvidia.com/cuda/archive/12.9.0/cuda-toolkit-release-notes/index.html
LIBRARIES = -lnvToolsExt -lcudart
