#pragma once

#include <string>
#include <vector>

#include "argosy/dtensor/ops/rule.h"

// Rules written as in an einsum: a letter for each dim, the same for dims that
// go together, '-' for a dim that must stay whole.
namespace argosy::dtensor {

// A strategy for each letter: inputs that have it are cut there, and so is the
// output. When the output does not have it, it is a sum over it: Partial.
// Inputs and outputs beyond those that are named are replicated.
//
//   by_letters(call, {"mk", "kn"}, {"mn"});   // mm
std::vector<Strategy> by_letters(
    const OpCall& call,
    const std::vector<std::string>& inputs,
    const std::vector<std::string>& outputs);

// The letters of a tensor that is broadcast to one with these: aligned at the
// last dim, and '-' where it has one element and the other more.
std::string broadcast_letters(
    const std::string& letters, const Shape& shape, const Shape& whole);

// What all inputs of a call are broadcast to, and their letters then.
Shape broadcast_shape(const OpCall& call);
std::vector<std::string> broadcast_inputs(
    const OpCall& call, const std::string& letters, const Shape& whole);

// "abc" and so on, for so many dims.
std::string first_letters(std::size_t count);

} // namespace argosy::dtensor
