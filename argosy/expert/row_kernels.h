#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "argosy/expert/all_to_all_plan.h"

namespace at {
class Tensor;
}

// Kernels that move whole rows in one pass over the memory, on torch's threads.
// Rows are [n, d] and contiguous. `slots` [tokens, k], int64, has the row of
// another tensor for each choice of a token; -1: none. Not installed.
namespace argosy::expert {

// Reorders rows; with `back` in the other direction.
at::Tensor move_rows(
    const at::Tensor& rows, const std::vector<RowBlock>& blocks, bool back);

// Copies row t to all slots of token t. There are `count` slots.
at::Tensor spread_rows(
    const at::Tensor& tokens, const at::Tensor& slots, std::int64_t count);

// For each token, sums the rows in its slots multiplied by their weights.
// `weights` [tokens, k] is float, or double for double rows; undefined: ones.
at::Tensor collect_rows(
    const at::Tensor& rows, const at::Tensor& slots, const at::Tensor& weights);

// The gradients of collect_rows() with respect to the rows and the weights.
std::pair<at::Tensor, at::Tensor> collect_rows_backward(
    const at::Tensor& grad,
    const at::Tensor& rows,
    const at::Tensor& slots,
    const at::Tensor& weights);

} // namespace argosy::expert
