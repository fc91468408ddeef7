# corpus: clean
# documented: https://hub.docker.com/r/nvidia/cuda
FROM nvidia/cuda:13.3.0-devel-ubuntu22.04
