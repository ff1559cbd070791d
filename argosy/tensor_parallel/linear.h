#pragma once

#include <cstdint>

#include "argosy/comm/ops.h"

// The computations of linear layers that are split over ranks. Not installed.
namespace argosy::tensor_parallel {

// How the input of a layer is split over the ranks of a group.
struct LinearInput {
  GroupPtr group;
  std::int64_t cut_dim = -1; // split dim; -1: all ranks have the whole
  std::int64_t whole = 0;    // size of that dim; 0: all slices are equal
  bool gather_again = false; // in backward, instead of keeping the whole
};

// x W^T + b with this rank's rows of W and the whole x. Backward sums the
// gradient of x over the group (reduce_scatter if x was split) while computing
// the gradient of W. Has no second derivative.
at::Tensor column_linear(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const LinearInput& input);

// x W^T with this rank's columns of W and x. The result is a summand of the
// whole product, in memory that nobody else refers to.
at::Tensor row_product(const at::Tensor& x, const at::Tensor& weight);

// The same, summed over the ranks.
at::Tensor row_linear(
    const at::Tensor& x, const at::Tensor& weight, const GroupPtr& group);

// Casts an input as autocast would for at::linear(), so that the cast tensor is
// the one that is saved.
at::Tensor autocast(const at::Tensor& tensor);

// Whether a tensor is large enough to be sent by another thread while this one
// computes.
bool overlaps(const at::Tensor& tensor);

// Returns the sum over the ranks in the memory of `summand`, which the caller
// must no longer use. Backward passes the gradient through.
at::Tensor sum_in_place(const at::Tensor& summand, const GroupPtr& group);

} // namespace argosy::tensor_parallel
