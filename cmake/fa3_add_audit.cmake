#[=======================================================================[.rst:
fa3_add_audit
-------------

Audit the fatbins of an object library as a build step, so that ``cmake --build`` and ``pip wheel`` cannot skip it.

.. code-block:: cmake

  fa3_add_audit(<target>)

Writes ``<binary folder>/fa3/manifest.json`` and the fatbins beside it, or fails the build.
#]=======================================================================]
include_guard(GLOBAL)

function(fa3_add_audit target)
  list(APPEND CMAKE_MESSAGE_CONTEXT "fa3_add_audit")
  set(package "${PROJECT_SOURCE_DIR}/src/fa3_matrix")
  set(objects "${CMAKE_BINARY_DIR}/fa3_objects.txt")
  file(GENERATE OUTPUT "${objects}" CONTENT "$<JOIN:$<TARGET_OBJECTS:${target}>,\n>\n")
  set(auditors)
  foreach(
    module
    audit
    checks
    compile_log
    cubin
    fatbin
    flags
    manifest
    occupancy
    ptxas
    sass
  )
    list(APPEND auditors "${package}/build/${module}.py")
  endforeach()
  list(APPEND auditors "${package}/matrix/model.py" "${package}/matrix/reader.py")
  set(manifest "${CMAKE_BINARY_DIR}/fa3/manifest.json")
  add_custom_command(
    OUTPUT "${manifest}"
    COMMAND
      "${CMAKE_COMMAND}" -E env --modify "PYTHONPATH=path_list_prepend:${PROJECT_SOURCE_DIR}/src"
      "${Python_EXECUTABLE}" -m fa3_matrix.build audit "${FA3_CELL}" --matrix
      "${PROJECT_SOURCE_DIR}/ci/matrix.toml" --objects "${objects}" --binary "${CMAKE_BINARY_DIR}"
      --output "${CMAKE_BINARY_DIR}/fa3" --nvcc-release "${FA3_CUDA_VERSION}" --package-version
      "${FA3_PACKAGE_VERSION}"
    DEPENDS
      $<TARGET_OBJECTS:${target}>
      "${objects}"
      "${PROJECT_SOURCE_DIR}/ci/matrix.toml"
      ${auditors}
    COMMENT "Audit ${FA3_CELL}"
    VERBATIM
  )
  add_custom_target(fa3_audit ALL DEPENDS "${manifest}")
endfunction()
