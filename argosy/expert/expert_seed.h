#pragma once

#include <cstdint>
#include <functional>

namespace at {
struct Generator;
}

// Random numbers that depend on which expert, or which rank, they are for, and
// not on how many there are. Not installed.
namespace argosy::expert {

// From the generator of first values: the same on all ranks that draw alike.
std::uint64_t draw_seed();

// A generator of its own for each number.
at::Generator seeded(std::uint64_t seed, std::int64_t number);

// Runs `make` so that modules that it makes draw first values for that number,
// plain ones and those of argosy/tensor_parallel.
void with_seed(
    std::uint64_t seed, std::int64_t number, const std::function<void()>& make);

} // namespace argosy::expert
