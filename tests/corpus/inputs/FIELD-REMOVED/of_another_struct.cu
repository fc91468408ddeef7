// corpus: clean
#include <cuda_runtime.h>

struct Radio {
  int clockRate;
};

int tune(const Radio& radio) { return radio.clockRate; }
