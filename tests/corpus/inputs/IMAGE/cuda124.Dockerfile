# corpus: latent
# at: 4
# documented: https://hub.docker.com/r/nvidia/cuda
FROM nvidia/cuda:12.4.1-devel-ubuntu22.04
