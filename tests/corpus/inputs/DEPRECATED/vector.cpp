// corpus: warn
#include <vector_types.h>

double first(double4 values) { return values.x; }
float first(float4 values) { return values.x; }
