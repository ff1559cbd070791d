#include "argosy/training/bucket.h"

#include <algorithm>

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

std::int64_t whole_lines(std::int64_t count, std::size_t element) {
  constexpr std::size_t kLine = 64; // bytes
  const auto line =
      static_cast<std::int64_t>(std::max<std::size_t>(kLine / element, 1));
  return (count + line - 1) / line * line;
}

} // namespace argosy::training
