#[=======================================================================[.rst:
fa3_python_variables
--------------------

Set variables from the ``set()`` commands that a build stage prints.

.. code-block:: cmake

  fa3_python_variables(<name> <argument>...)

Keeps the output as ``<name>.cmake`` in the binary folder and includes it. A macro, so that the variables are the caller's.
#]=======================================================================]
include_guard(GLOBAL)
include(fa3_python)

macro(fa3_python_variables name)
  fa3_python(_fa3_output ${ARGN})
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/${name}.cmake" CONTENT "${_fa3_output}\n" @ONLY)
  unset(_fa3_output)
  include("${CMAKE_BINARY_DIR}/${name}.cmake")
endmacro()
