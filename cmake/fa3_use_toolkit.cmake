#[=======================================================================[.rst:
fa3_use_toolkit
---------------

Choose the CUDA compiler; call before ``enable_language(CUDA)``.

.. code-block:: cmake

  fa3_use_toolkit(<version>)

Finds (or provisions) the toolkit and sets ``CMAKE_CUDA_COMPILER`` and a host compiler that this toolkit accepts. The
flags of a cell are :command:`fa3_add_cell`'s alone, so CMake's per-configuration ones are emptied.
#]=======================================================================]
include_guard(GLOBAL)
include(fa3_python_variables)

macro(fa3_use_toolkit version)
  fa3_python_variables(fa3_toolkit -m fa3_matrix.toolkits cmake "${version}")
  set(CMAKE_CUDA_COMPILER "${FA3_NVCC}")
  set(CMAKE_CUDA_HOST_COMPILER "${FA3_CUDA_HOST_COMPILER}")
  set(CMAKE_CUDA_FLAGS_RELEASE "")
  # No default: every target names its own.
  set(CMAKE_CUDA_ARCHITECTURES OFF)
endmacro()
