#[=======================================================================[.rst:
fa3_add_host_library
--------------------

Add the host library: plain C++20, neither libcudart nor libcuda at link time.

.. code-block:: cmake

  fa3_add_host_library(<target> SOURCES <source>... [LIBRARIES <target>...])

``cuda.h`` is that of the newest toolkit of the matrix and torch's stable-ABI headers are pinned, whatever is installed.
The library is ``<binary folder>/lib<target>.so`` and is installed into ``fa3_matrix/lib``. It needs each of ``LIBRARIES`` at run
time, also those that it takes no symbol from at link time, and looks for them in its own folder.
#]=======================================================================]
include_guard(GLOBAL)
include(fa3_python)
include(fa3_python_variables)

# Oldest torch whose stable ABI the library may use: major << 56 | minor << 48 (torch/headeronly/version.h).
set(FA3_TORCH_TARGET_VERSION "0x020a000000000000")

# Whose cuda.h: driver entry points are looked up by name, so a new header costs an old driver nothing.
set(FA3_HOST_TOOLKIT 13.3)

function(fa3_add_host_library target)
  list(APPEND CMAKE_MESSAGE_CONTEXT "fa3_add_host_library")
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "fa3_add_host_library(${target}): SOURCES is empty")
  endif()
  fa3_python(torch_include -m fa3_matrix.toolkits torch-headers)
  fa3_python_variables(fa3_host_toolkit -m fa3_matrix.toolkits cmake "${FA3_HOST_TOOLKIT}")
  add_library(${target} SHARED ${arg_SOURCES})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/cpp")
  target_include_directories(${target} SYSTEM PRIVATE "${torch_include}" "${FA3_CUDA_INCLUDE}")
  target_compile_definitions(${target} PRIVATE TORCH_TARGET_VERSION=${FA3_TORCH_TARGET_VERSION})
  target_compile_options(${target} PRIVATE -Wall -Wextra)
  target_link_options(${target} PRIVATE LINKER:-z,now LINKER:--no-as-needed)
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES} ${CMAKE_DL_LIBS})
  set_target_properties(
    ${target}
    PROPERTIES
      CXX_STANDARD 20
      CXX_STANDARD_REQUIRED ON
      CXX_EXTENSIONS OFF
      CXX_VISIBILITY_PRESET hidden
      VISIBILITY_INLINES_HIDDEN ON
      PREFIX "lib"
      LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}"
      # The same in the build tree: a path to the build must not be left in what is shipped.
      INSTALL_RPATH "$ORIGIN"
      BUILD_WITH_INSTALL_RPATH ON
  )
  install(TARGETS ${target} LIBRARY DESTINATION fa3_matrix/lib)
endfunction()
