#include "argosy/data/token_dataset.h"

#include <utility>

#include "argosy/common/error.h"

namespace argosy::data {

TokenDataset::TokenDataset(
    Tokens tokens, std::int64_t sequence_length, std::int64_t stride)
    : tokens_(std::move(tokens)),
      sequence_length_(sequence_length),
      stride_(stride == 0 ? sequence_length : stride) {
  ARGOSY_CHECK(
      sequence_length > 0 && stride_ > 0,
      "[data.tokens] sequence_length {}, stride {}, expected 1 or more",
      sequence_length,
      stride_);
  ARGOSY_CHECK(
      tokens_.size() > sequence_length,
      "[data.tokens] {}: {} tokens, expected more than sequence_length {}",
      tokens_.name(),
      tokens_.size(),
      sequence_length);
}

std::int64_t TokenDataset::size() const {
  // A window has one token more than the sequence: the last target.
  return (tokens_.size() - sequence_length_ - 1) / stride_ + 1;
}

TokenWindow TokenDataset::get(std::int64_t index) const {
  ARGOSY_CHECK(
      index >= 0 && index < size(),
      "[data.tokens] window {}, expected 0 to {}",
      index,
      size() - 1);
  return {tokens_.read(index * stride_, sequence_length_ + 1)};
}

} // namespace argosy::data
