#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "argosy/dtensor/layout/layout.h"
#include "argosy/dtensor/tensor/random_state.h"

namespace argosy::dtensor {

// A number from 128 random bits.
using Distribution =
    std::function<double(const std::array<std::uint32_t, 4>& bits)>;

Distribution uniform(double from, double to);
Distribution normal(double mean, double deviation);
Distribution log_normal(double mean, double deviation); // of the logarithm
Distribution bernoulli(double probability);
Distribution exponential(double rate);
Distribution cauchy(double median, double scale);
Distribution geometric(double probability); // trials until the first success
Distribution integers(std::int64_t from, std::int64_t to); // without `to`

// Fills the part `box` of a tensor of shape `global`. An element depends on its
// place in the whole only, so every cut has the same values.
void fill_random(
    const at::Tensor& local,
    const Shape& global,
    const Box& box,
    RandomState::Draw draw,
    const Distribution& distribution);

} // namespace argosy::dtensor
