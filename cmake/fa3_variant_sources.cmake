#[=======================================================================[.rst:
fa3_variant_sources
-------------------

Write one source file for each variant of the cell.

.. code-block:: cmake

  fa3_variant_sources(<out-var>)

Expands ``cpp/<kernel>/forward.cu.in``, of each variant's own kernel, to ``<binary folder>/generated/<variant>.cu`` and returns
the paths. What a kernel has no option for expands to nothing. One variant a file: files compile in parallel, and a fatbin can
hold only one image for a target without device linking.
#]=======================================================================]
include_guard(GLOBAL)

function(fa3_variant_sources out_var)
  list(APPEND CMAKE_MESSAGE_CONTEXT "fa3_variant_sources")
  set(elements_bf16 "Bf16")
  set(elements_fp16 "Fp16")
  set(sources)
  foreach(FA3_VARIANT IN LISTS FA3_VARIANTS)
    foreach(
      fact
      KERNEL
      DTYPE
      HEAD_DIM
      BLOCK_M
      BLOCK_N
      STAGES
      WARPS
      Q_IN_REGISTERS
      MIN_BLOCKS
      STAGES_V
      STAGES_Q
      PING_PONG
      ROW_WARPS
      KEY_GROUPS
    )
      set(FA3_${fact} "${${FA3_VARIANT}_${fact}}")
    endforeach()
    set(FA3_ELEMENT "${elements_${FA3_DTYPE}}")
    set(source "${CMAKE_BINARY_DIR}/generated/${FA3_VARIANT}.cu")
    configure_file("${PROJECT_SOURCE_DIR}/cpp/${FA3_KERNEL}/forward.cu.in" "${source}" @ONLY)
    list(APPEND sources "${source}")
  endforeach()
  set(${out_var} "${sources}" PARENT_SCOPE)
endfunction()
