#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "argosy/expert/all_to_all_plan.h"

namespace at {
class Tensor;
}

// Moves of whole rows, each one pass over the memory on torch's threads. Rows
// are [n, d] and contiguous. `slots` [tokens, k], int64, says which row of
// another tensor each choice of a token has; -1: none. Not installed.
namespace argosy::expert {

// Rows in another order; backwards with `back`.
at::Tensor move_rows(
    const at::Tensor& rows, const std::vector<RowBlock>& blocks, bool back);

// Row t to all slots of token t. There are `count` slots.
at::Tensor spread_rows(
    const at::Tensor& tokens, const at::Tensor& slots, std::int64_t count);

// For each token the sum of the rows in its slots, each times its weight;
// `weights` [tokens, k] is float, or double with double rows; undefined: ones.
at::Tensor collect_rows(
    const at::Tensor& rows, const at::Tensor& slots, const at::Tensor& weights);

// The gradients of collect_rows(): of the rows, and of the weights.
std::pair<at::Tensor, at::Tensor> collect_rows_backward(
    const at::Tensor& grad,
    const at::Tensor& rows,
    const at::Tensor& slots,
    const at::Tensor& weights);

} // namespace argosy::expert
