#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "argosy/comm/kernels/reduce_op.h"
#include "argosy/dtensor/ops/rule.h"

// For rules whose `run` communicates: over which ranks, and how.
namespace argosy::dtensor {

// The mesh axes that cut a dim of a tensor argument for which `matters` holds.
std::vector<int> axes_that_cut(
    const LocalCall& call,
    std::string_view argument,
    const std::function<bool(int dim)>& matters);
std::vector<int> axes_that_cut(
    const LocalCall& call, std::string_view argument, std::int64_t dim);

// Reduces in place over the ranks that differ from this one on these axes only;
// does nothing when there are none. `tensor` must be contiguous.
void reduce_over(
    LocalCall& call,
    const std::vector<int>& axes,
    const at::Tensor& tensor,
    comm::ReduceOp op = comm::ReduceOp::SUM);

// Where this rank's part of a dim of an argument begins in the whole.
std::int64_t offset_of(
    LocalCall& call, std::string_view argument, std::int64_t dim);

} // namespace argosy::dtensor
