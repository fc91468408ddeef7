#[=======================================================================[.rst:
fa3_python
----------

Run a module of this package's build stages and capture what it prints.

.. code-block:: cmake

  fa3_python(<out-var> <argument>...)

``<argument>...`` are what follows ``python``: ``-m fa3_matrix.matrix cmake sm90-cu133``. The package is taken from
the source tree, whatever is installed. Messages and progress go to the terminal; a failure stops the configure.
#]=======================================================================]
include_guard(GLOBAL)

function(fa3_python out_var)
  list(APPEND CMAKE_MESSAGE_CONTEXT "fa3_python")
  # Prepended, not set: in pip's isolated environment PYTHONPATH is how the build requirements are found.
  execute_process(
    COMMAND
      "${CMAKE_COMMAND}" -E env --modify "PYTHONPATH=path_list_prepend:${PROJECT_SOURCE_DIR}/src"
      "${Python_EXECUTABLE}" ${ARGN}
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    OUTPUT_VARIABLE output
    RESULT_VARIABLE result
    OUTPUT_STRIP_TRAILING_WHITESPACE
  )
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "python ${command} failed (${result}); its message is above")
  endif()
  set(${out_var} "${output}" PARENT_SCOPE)
endfunction()
