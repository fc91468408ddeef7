// Adds to an accumulator while the multiplication is in flight: both toolkits have to serialise or inject a wait (C75xx).
__device__ void multiply(float (&d)[4], uint64_t a, uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;\n"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "l"(a), "l"(b));
}

__device__ void body(const fa3::ForwardParams& params) {
  float d[4] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  for (int step = 0; step < params.seqlen_k; ++step) {
    multiply(d, params.batch + step, params.heads_q);
    d[0] += 1.0f;
    multiply(d, params.batch, params.heads_q + step);
  }
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 4; ++i) params.lse[threadIdx.x * 4 + i] = d[i];
}
