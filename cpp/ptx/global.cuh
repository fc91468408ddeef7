// Stores to global memory.
#pragma once

#include <cstdint>

namespace fa3::ptx {

// A predicated instruction: of a conditional statement the compiler may make a branch, with the address computed anew.
__device__ __forceinline__ void store_global_if(bool condition, void* address, const uint2& value) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %0, 0;\n@p st.global.v2.b32 [%1], {%2, %3};\n}" ::"r"(
                   static_cast<uint32_t>(condition)),
               "l"(address), "r"(value.x), "r"(value.y)
               : "memory");
}

__device__ __forceinline__ void store_global_if(bool condition, void* address, float value) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.u32 p, %0, 0;\n@p st.global.f32 [%1], %2;\n}" ::"r"(static_cast<uint32_t>(condition)),
      "l"(address), "f"(value)
      : "memory");
}

// Hides how a pointer was computed: or else the compiler may do so again for each address near it.
template <typename T>
__device__ __forceinline__ T* opaque(T* pointer) {
  asm volatile("" : "+l"(pointer));
  return pointer;
}

}  // namespace fa3::ptx
