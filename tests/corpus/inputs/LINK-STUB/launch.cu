// corpus: break
// at: 5
// linked: template <class T> __global__ void scale(T* data) { *data *= 2; }
// linked: template __global__ void scale<float>(float*);
template <class T> __global__ void scale(T* data);

void twice(float* data) { scale<float><<<1, 1>>>(data); }
