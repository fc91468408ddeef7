// corpus: unseen
// linked: __global__ void scale(float* data) { *data *= 2; }
__global__ void scale(float* data);

void twice(float* data) { scale<<<1, 1>>>(data); }
