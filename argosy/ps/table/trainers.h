#pragma once

#include <cstddef>

#include "argosy/common/error.h"

// Checks of numbers of trainers; `op` stands in the message.
namespace argosy::ps {

inline void check_num_trainers(const char* op, int num_trainers) {
  ARGOSY_CHECK(
      num_trainers > 0,
      "[ps.{}] {} trainers, expected at least 1",
      op,
      num_trainers);
}

inline void check_trainer(const char* op, int trainer, std::size_t count) {
  ARGOSY_CHECK(
      trainer >= 0 && static_cast<std::size_t>(trainer) < count,
      "[ps.{}] trainer {}, expected 0 to {}",
      op,
      trainer,
      count - 1);
}

} // namespace argosy::ps
