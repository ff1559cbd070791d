#pragma once

#include <cmath>

#include "argosy/common/error.h"

// Shared by Adam, AdamW and LAMB.

namespace argosy::optim {

template <typename Options>
void check_adam(const Options& options, const char* name) {
  const auto [beta1, beta2] = options.betas();
  ARGOSY_CHECK(
      options.lr() >= 0 && options.eps() >= 0 && options.weight_decay() >= 0,
      "[optim.{}] lr {}, eps {}, weight_decay {}, expected none below 0",
      name,
      options.lr(),
      options.eps(),
      options.weight_decay());
  ARGOSY_CHECK(
      beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1,
      "[optim.{}] betas {} and {}, expected in [0, 1)",
      name,
      beta1,
      beta2);
}

// The factor by which a moving average that began at 0 is too small after
// `step` steps.
inline double bias_correction(double beta, std::int64_t step) {
  return 1 - std::pow(beta, static_cast<double>(step));
}

} // namespace argosy::optim
