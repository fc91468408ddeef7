"""An environment in which only the chosen toolkit decides what a compiler sees."""

import os
from collections.abc import Mapping

# Each makes a compiler or CMake look into another toolkit, or adds flags that no manifest shows. (A
# CPATH set by a container image has hidden missing include paths from projects' CI for years.)
_SCRUBBED = (
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "OBJC_INCLUDE_PATH",
    "LIBRARY_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_ROOT",
    "CUDA_BIN_PATH",
    "CUDA_INC_PATH",
    "CUDA_LIB_PATH",
    "CUDA_TOOLKIT_ROOT_DIR",
    "CUDAToolkit_ROOT",
    "CUDACXX",
    "CUDAFLAGS",
    "CUDAARCHS",
    "NVCC_APPEND_FLAGS",
    "NVCC_PREPEND_FLAGS",
    "NVCC_CCBIN",
    "NVVMIR_LIBRARY_DIR",
    "CICC_PATH",
    "CICC_VERSION",
    "TORCH_CUDA_ARCH_LIST",
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "CMAKE_PREFIX_PATH",
    "CMAKE_INCLUDE_PATH",
    "CMAKE_LIBRARY_PATH",
    "CMAKE_TOOLCHAIN_FILE",
    "CMAKE_GENERATOR",
    "CMAKE_BUILD_TYPE",
    "CMAKE_CUDA_COMPILER_LAUNCHER",
)


def clean_environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """A copy of `env` (default: this process's) without what changes a build unseen."""
    source = os.environ if env is None else env
    return {name: value for name, value in source.items() if name not in _SCRUBBED}


def scrubbed(env: Mapping[str, str] | None = None) -> list[str]:
    """Names of the variables of `env` that `clean_environment` drops."""
    source = os.environ if env is None else env
    return sorted(name for name in source if name in _SCRUBBED)
