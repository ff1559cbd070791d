#include "argosy/training/bucket.h"

#include <algorithm>
#include <map>
#include <utility>

namespace argosy::training {

Bucket bucket_for(const ParameterInfo& parameter) {
  return {
      .type = parameter.type,
      .element = parameter.element,
      .trainable = parameter.trainable,
      .sparse = parameter.sparse,
      .is_distributed = parameter.is_distributed,
      .is_expert = parameter.is_expert};
}

// Parameters with other flags are reduced over other groups or not at all, so
// they cannot share a flat buffer that one call reduces.
bool same_kind(const Bucket& bucket, const ParameterInfo& parameter) {
  return bucket.type == parameter.type &&
      bucket.trainable == parameter.trainable &&
      bucket.sparse == parameter.sparse &&
      bucket.is_distributed == parameter.is_distributed &&
      bucket.is_expert == parameter.is_expert;
}

void append(Bucket& bucket, std::size_t index, const ParameterInfo& parameter) {
  const std::int64_t begin = whole_lines(bucket.count, bucket.element);
  bucket.entries.push_back({index, begin, parameter.count});
  bucket.count = begin + parameter.count;
}

FusionSets fusion_sets(
    const std::vector<ParameterInfo>& parameters,
    const std::vector<std::size_t>& order) {
  FusionSets sets;
  std::map<std::pair<int, bool>, std::size_t> known;
  for (const std::size_t i : order) {
    const ParameterInfo& parameter = parameters[i];
    if (parameter.comm_fusion < 0 || !parameter.trainable) {
      sets.rest.push_back(i);
      continue;
    }
    const auto [found, is_new] = known.emplace(
        std::pair(parameter.comm_fusion, parameter.is_distributed),
        sets.together.size());
    if (is_new || parameter.comm_fusion == 0) {
      found->second = sets.together.size();
      sets.together.emplace_back();
    }
    sets.together[found->second].push_back(i);
  }
  return sets;
}

std::int64_t whole_lines(std::int64_t count, std::size_t element) {
  constexpr std::size_t kLine = 64; // bytes
  const auto line =
      static_cast<std::int64_t>(std::max<std::size_t>(kLine / element, 1));
  return (count + line - 1) / line * line;
}

} // namespace argosy::training
