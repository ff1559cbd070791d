#include "argosy/expert/expert_seed.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <limits>

#include "argosy/tensor_parallel/initial_values.h"
#include "argosy/tensor_parallel/rng.h"

namespace argosy::expert {

std::uint64_t draw_seed() {
  at::Tensor seed = at::empty({1}, at::kLong);
  seed.random_(
      0,
      std::numeric_limits<std::int32_t>::max(),
      tensor_parallel::initial_generator());
  return static_cast<std::uint64_t>(seed.item<std::int64_t>());
}

at::Generator seeded(std::uint64_t seed, std::int64_t number) {
  // The factor is odd, so that different numbers get different seeds.
  return at::detail::createCPUGenerator(
      seed * 0x9E3779B97F4A7C15u +
      static_cast<std::uint64_t>(number) * 0xD1342543DE82EF95u);
}

void with_seed(
    std::uint64_t seed,
    std::int64_t number,
    const std::function<void()>& make) {
  const RngStatesTracker::Scope scope(seeded(seed, number));
  make();
}

} // namespace argosy::expert
