// A kernel's place in its stream: programmatic dependent launch (PTX ISA, "griddepcontrol", sm_90).
#pragma once

namespace fa3::ptx {

// Returns once the grids before this one in its stream are complete and what they wrote is visible (at once if this
// one was launched without the attribute), and lets the next grid's CTAs start where this one leaves room. In this
// order: what the next grid reads before it waits may be of any grid before this one.
__device__ __forceinline__ void follow_grids_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace fa3::ptx
