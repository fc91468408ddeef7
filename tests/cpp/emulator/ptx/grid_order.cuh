// Stand-in for cpp/ptx/grid_order.cuh: grids run one after the other.
#pragma once

namespace fa3::ptx {

inline void follow_grids_before() {}

}  // namespace fa3::ptx
