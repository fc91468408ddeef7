#[=======================================================================[.rst:
fa3_add_cell
------------

Compile the variants of the cell read by :command:`fa3_read_cell`, each to a fatbin with one image, audit them, and
lay them down with their ``manifest.json`` in ``<binary folder>/fa3``.

.. code-block:: cmake

  fa3_add_cell()

Installs the build as ``fa3_matrix/cells/<cell>``; a twin is for tests and is never installed.
#]=======================================================================]
include_guard(GLOBAL)
include(fa3_variant_sources)
include(fa3_add_audit)

function(fa3_add_cell)
  list(APPEND CMAKE_MESSAGE_CONTEXT "fa3_add_cell")
  fa3_variant_sources(sources)
  add_library(fa3_cell OBJECT ${sources})
  target_include_directories(fa3_cell PRIVATE "${PROJECT_SOURCE_DIR}/cpp")
  if(FA3_TWIN_OF)
    # CUDA_ARCHITECTURES cannot say "SASS of one architecture from PTX of another".
    set_target_properties(fa3_cell PROPERTIES CUDA_ARCHITECTURES OFF)
    target_compile_options(fa3_cell PRIVATE "--generate-code=${FA3_GENCODE}")
  else()
    set_target_properties(fa3_cell PROPERTIES CUDA_ARCHITECTURES "${FA3_TARGET}")
  endif()
  set_target_properties(
    fa3_cell
    PROPERTIES
      CUDA_FATBIN_COMPILATION ON
      CUDA_STANDARD 17
      CUDA_STANDARD_REQUIRED ON
      CUDA_EXTENSIONS OFF
      # Only a fatbin is wanted, so nothing is linked; stated because an empty libcudadevrt.a may stand in for the real one.
      CUDA_SEPARABLE_COMPILATION OFF
      CUDA_COMPILER_LAUNCHER
        "${Python_EXECUTABLE};${PROJECT_SOURCE_DIR}/src/fa3_matrix/build/compile_log.py;--"
  )
  target_compile_options(
    fa3_cell
    PRIVATE
      -O3
      -lineinfo
      # Wheels are compressed as a whole, a raw fatbin loads faster, and the modes of 13.x need newer drivers. Both toolkits know it.
      --no-compress
  )
  if(FA3_FORM STREQUAL "sass")
    # Statistics for the audit; the launcher keeps them off the screen. A PTX image would carry the option to the driver.
    target_compile_options(fa3_cell PRIVATE -Xptxas=-v)
  endif()
  fa3_add_audit(fa3_cell)
  if(NOT FA3_TWIN_OF)
    install(DIRECTORY "${CMAKE_BINARY_DIR}/fa3/" DESTINATION "fa3_matrix/cells/${FA3_CELL}")
  endif()
endfunction()
