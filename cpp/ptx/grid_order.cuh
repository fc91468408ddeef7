// A kernel's place in its stream: programmatic dependent launch (PTX ISA, "griddepcontrol", sm_90).
#pragma once

namespace fa3::ptx {

// Returns once the grids before this one in its stream are complete and what they wrote is visible. At once if this
// one was launched without the attribute.
__device__ __forceinline__ void wait_for_grids_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next grid's CTAs start where this one leaves room: they wait by the function above for what it writes. To be
// called after that one: what the next grid reads before its own wait may be of any grid before this one.
__device__ __forceinline__ void let_next_grid_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace fa3::ptx
