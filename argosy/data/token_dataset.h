#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "argosy/data/tokens.h"

namespace argosy::data {

// A training sample of language modelling: each target is the next token.
struct TokenWindow {
  std::vector<std::int64_t> tokens; // sequence length + 1

  std::span<const std::int64_t> input() const {
    return std::span(tokens).first(tokens.size() - 1);
  }
  std::span<const std::int64_t> target() const {
    return std::span(tokens).subspan(1);
  }
};

// Windows of `sequence_length` tokens, for DataLoader. Window i starts at token
// i * stride. With the default stride, sequence_length, each token is a target
// once. A remainder at the end is not used.
class TokenDataset {
 public:
  // Throws InvalidArgument when there are too few tokens for one window.
  TokenDataset(
      Tokens tokens, std::int64_t sequence_length, std::int64_t stride = 0);

  std::int64_t size() const;
  TokenWindow get(std::int64_t index) const;

  std::int64_t sequence_length() const { return sequence_length_; }

 private:
  Tokens tokens_;
  std::int64_t sequence_length_;
  std::int64_t stride_;
};

} // namespace argosy::data
