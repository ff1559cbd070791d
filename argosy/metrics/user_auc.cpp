#include "argosy/metrics/user_auc.h"

#include <algorithm>
#include <tuple>

namespace argosy::metrics {

namespace {

// Of samples sorted by prediction, highest first; negative if they have one
// label only.
double auc_of(std::span<const UserSample> sorted) {
  double positives = 0;
  double negatives = 0;
  double pairs = 0; // in order; half of those with equal predictions
  for (std::size_t i = 0; i < sorted.size();) {
    double positive = 0;
    double negative = 0;
    const float prediction = sorted[i].prediction;
    for (; i < sorted.size() && sorted[i].prediction == prediction; ++i) {
      ++(sorted[i].label == 1 ? positive : negative);
    }
    pairs += negative * (positives + positive / 2);
    positives += positive;
    negatives += negative;
  }
  return positives == 0 || negatives == 0 ? -1
                                          : pairs / (positives * negatives);
}

} // namespace

UserAucResult user_auc(std::vector<UserSample> samples) {
  std::sort(
      samples.begin(),
      samples.end(),
      [](const UserSample& a, const UserSample& b) {
        return std::tuple(a.user, b.prediction) <
            std::tuple(b.user, a.prediction);
      });
  UserAucResult result;
  double sum = 0;
  double weighted = 0;
  for (std::size_t first = 0; first < samples.size();) {
    std::size_t end = first;
    while (end < samples.size() && samples[end].user == samples[first].user) {
      ++end;
    }
    const double auc = auc_of(std::span(samples).subspan(first, end - first));
    if (auc >= 0) {
      ++result.num_users;
      result.num_samples += static_cast<std::int64_t>(end - first);
      sum += auc;
      weighted += auc * static_cast<double>(end - first);
    }
    first = end;
  }
  if (result.num_users > 0) {
    result.uauc = sum / static_cast<double>(result.num_users);
    result.wuauc = weighted / static_cast<double>(result.num_samples);
  }
  return result;
}

} // namespace argosy::metrics
