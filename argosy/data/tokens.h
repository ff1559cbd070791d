#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace argosy::data {

enum class TokenType { U8, I8, I16, U16, I32, U32, I64 };

std::size_t size_of(TokenType type);
std::string_view name_of(TokenType type); // "uint16"

// An array of tokens, in memory or in a mapped file: copies share it. Constant,
// so that any number of threads may read.
class Tokens {
 public:
  // Tokens in memory; stored in the smallest unsigned type that holds them.
  // Throws InvalidArgument for one below 0 or above 2^32 - 1.
  explicit Tokens(std::span<const std::int64_t> tokens);

  // `bytes` in little-endian order, kept alive by `owner`; need not be aligned.
  // `name` is for messages, such as the file's.
  Tokens(
      std::shared_ptr<const void> owner,
      std::span<const std::byte> bytes,
      TokenType type,
      std::string name);

  std::int64_t size() const;
  TokenType type() const { return type_; }
  const std::string& name() const { return name_; }

  // Tokens [begin, begin + out.size()). Throws InvalidArgument beyond the end.
  void read(std::int64_t begin, std::span<std::int64_t> out) const;
  std::vector<std::int64_t> read(std::int64_t begin, std::int64_t count) const;

  // Tokens [begin, end) as an array of their own, without a copy; to split into
  // training and validation. Throws InvalidArgument.
  Tokens slice(std::int64_t begin, std::int64_t end) const;

 private:
  std::span<const std::byte> bytes_of(
      std::int64_t begin, std::int64_t count) const;

  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
  TokenType type_ = TokenType::U16;
  std::string name_;
};

// `tokens` as bytes of `type`. Throws InvalidArgument that names the first
// token which the type cannot hold, and its place.
std::vector<std::byte> pack_tokens(
    std::span<const std::int64_t> tokens, TokenType type);

} // namespace argosy::data
