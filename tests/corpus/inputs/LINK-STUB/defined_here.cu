// corpus: clean
// linked: int nothing;
template <class T> __global__ void scale(T* data) { *data *= 2; }

void twice(float* data) { scale<float><<<1, 1>>>(data); }
