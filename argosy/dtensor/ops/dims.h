#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "argosy/dtensor/ops/rule.h"

// Small words that rules about dims have in common.
namespace argosy::dtensor {

// A dim that may count from the last.
std::size_t wrapped(std::int64_t dim, std::size_t ndim);

// Letters (letters.h) of a tensor whose dims all differ, '-' for `whole` ones.
std::string letters_but(std::size_t ndim, const Shape& whole);
std::string letters_but(std::size_t ndim, std::int64_t whole);

// SUM and AVG go through what is linear.
bool is_linear(Placement placement);

// All inputs and outputs so placed.
Strategy everywhere(const OpCall& call, Placement placement);

// Adds that a Partial goes through: `first` when only the first input is one,
// and the others are replicated; `all` when all inputs are alike.
void pass_first(std::vector<Strategy>& strategies, const OpCall& call);
void pass_first_linear(std::vector<Strategy>& strategies, const OpCall& call);
void pass_all(std::vector<Strategy>& strategies, const OpCall& call);

// Whether some rank would hold nothing of a dim that is cut.
bool may_leave_empty_parts(
    const OpCall& call, std::size_t input, std::size_t dim);

using Arguments = std::vector<std::pair<std::string_view, c10::IValue>>;

// For `shapes`: all outputs are as the first input, or as "input_sizes" says.
std::vector<Shape> shape_of_first(const OpCall& call);
std::vector<Shape> shape_of_input_sizes(const OpCall& call);

// For `localize`: the size of this rank's result, as the argument "size", or
// "input_sizes".
Arguments local_size(const OpCall& call, const std::vector<Shape>& local_outs);
Arguments local_input_sizes(
    const OpCall& call, const std::vector<Shape>& local_outs);

} // namespace argosy::dtensor
