// corpus: break
#include <cub/cub.cuh>

using Reduce = cub::BlockReduce<int, 128, cub::BLOCK_REDUCE_WARP_REDUCTIONS, 1, 1, 800>;
