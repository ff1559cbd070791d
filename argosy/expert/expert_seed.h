#pragma once

#include <cstdint>
#include <functional>

namespace at {
struct Generator;
}

// Random numbers that depend on the number of the expert or rank that they are
// for, and not on how many there are. Not installed.
namespace argosy::expert {

// Draws a seed from the generator of initial values. All ranks get the same
// one if they draw alike.
std::uint64_t draw_seed();

// A generator that depends on the seed and the number.
at::Generator seeded(std::uint64_t seed, std::int64_t number);

// Calls `make`. Modules that it constructs, plain ones and those of
// argosy/tensor_parallel, draw initial values that depend on the number.
void with_seed(
    std::uint64_t seed, std::int64_t number, const std::function<void()>& make);

} // namespace argosy::expert
