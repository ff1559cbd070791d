#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace argosy::metrics {

// AUC by user, averaged. Users whose samples all have one label have none, and
// do not count.
struct UserAucResult {
  double uauc = 0;              // each user counts alike
  double wuauc = 0;             // by the number of samples
  std::int64_t num_users = 0;   // that have both labels
  std::int64_t num_samples = 0; // of them
};

struct UserSample {
  std::uint64_t user = 0;
  float prediction = 0;
  float label = 0; // 0 or 1
};

// Exact: by sorting each user's samples. All samples of a user must be there.
UserAucResult user_auc(std::vector<UserSample> samples);

} // namespace argosy::metrics
