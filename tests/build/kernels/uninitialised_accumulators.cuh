// wgmma whose first multiplication is told at run time to ignore accumulators that nothing has set. CUDA 12.4's ptxas says
// C7515 (serialised: 30 % slower in an attention kernel); 13.3 compiles it without a remark.
__device__ void multiply(float (&d)[4], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(a), "l"(b), "r"(accumulate));
}

__device__ void body(const fa3::ForwardParams& params) {
  const uint64_t a = params.batch, b = params.heads_q;
  float d[4];
  for (int step = 0; step < params.seqlen_k; ++step) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int k = 0; k < 4; ++k) multiply(d, a + 4 * step + k, b + step + k, step != 0 || k != 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    if (step % 2) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 4; ++i) params.lse[threadIdx.x * 4 + i] = d[i];
}
