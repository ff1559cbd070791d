#pragma once

#include <cstdint>

#include "argosy/comm/ops.h"

// What linear layers that are cut over ranks compute. Not installed.
namespace argosy::tensor_parallel {

// How the input of a layer is spread over the ranks of a group.
struct LinearInput {
  GroupPtr group;
  // Which dim is cut, and how long it is; -1: all ranks have the whole.
  std::int64_t cut_dim = -1;
  std::int64_t whole = 0;    // 0: all parts are equal
  bool gather_again = false; // for backward, rather than keep it
};

// x W^T + b with the rows of W that this rank has, of the whole x. Backward
// sums the gradient of x over the group, and leaves each rank its part where x
// was cut; meanwhile it multiplies for that of W. Has no second derivative.
at::Tensor column_linear(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const LinearInput& input);

// x W^T with the columns of W and of x that this rank has: a summand of the
// result, which nobody else holds.
at::Tensor row_product(const at::Tensor& x, const at::Tensor& weight);

// As autocast casts what at::linear() is given, before it is saved.
at::Tensor autocast(const at::Tensor& tensor);

// The sum over the ranks, in the memory of `summand`, which must not be used
// any more. Backward as it is.
at::Tensor sum_in_place(const at::Tensor& summand, const GroupPtr& group);

} // namespace argosy::tensor_parallel
