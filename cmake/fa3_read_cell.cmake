#[=======================================================================[.rst:
fa3_read_cell
-------------

Read a cell or twin of ``ci/matrix.toml``.

.. code-block:: cmake

  fa3_read_cell(<cell>)

Sets ``FA3_ARCH``, ``FA3_TOOLKIT``, ``FA3_TARGET`` (entry of ``CUDA_ARCHITECTURES``), ``FA3_GENCODE`` (the same for nvcc),
``FA3_TWIN_OF``, ``FA3_FORM``, ``FA3_VARIANTS``, and for each variant ``<variant>_KERNEL`` (folder of cpp/), ``<variant>_DTYPE`` and the like.
A changed matrix configures again.
#]=======================================================================]
include_guard(GLOBAL)
include(fa3_python_variables)

macro(fa3_read_cell cell)
  set_property(
    DIRECTORY "${PROJECT_SOURCE_DIR}"
    APPEND
    PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/ci/matrix.toml"
  )
  fa3_python_variables(fa3_cell -m fa3_matrix.matrix cmake "${cell}")
endmacro()
