#[=======================================================================[.rst:
fa3_scrub_environment
---------------------

Remove what would change a build behind the manifest's back (CPATH, CUDA_HOME, NVCC_APPEND_FLAGS ...) from CMake's own
environment, so that its compiler checks see what the build will see. The compiler launcher does the same at build time.
#]=======================================================================]
include_guard(GLOBAL)
include(fa3_python)

function(fa3_scrub_environment)
  list(APPEND CMAKE_MESSAGE_CONTEXT "fa3_scrub_environment")
  # A line break, for CMake would split the argument at a semicolon.
  fa3_python(names -c "from fa3_matrix.toolkits import scrubbed\nprint(*scrubbed())")
  string(REPLACE " " ";" names "${names}")
  foreach(name IN LISTS names)
    message(STATUS "Ignoring ${name} of the environment")
    unset(ENV{${name}})
  endforeach()
endfunction()
