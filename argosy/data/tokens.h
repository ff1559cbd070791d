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

// An array of tokens in memory or in a mapped file. Copies share the data.
// Immutable, hence thread-safe.
class Tokens {
 public:
  // Copies tokens to memory, in the smallest unsigned type that holds them.
  // Throws InvalidArgument for tokens below 0 or above 2^32 - 1.
  explicit Tokens(std::span<const std::int64_t> tokens);

  // Refers to little-endian `bytes`, which need not be aligned; `owner` keeps
  // them alive. `name` identifies the tokens in messages, for example the file
  // name.
  Tokens(
      std::shared_ptr<const void> owner,
      std::span<const std::byte> bytes,
      TokenType type,
      std::string name);

  std::int64_t size() const;
  TokenType type() const { return type_; }
  const std::string& name() const { return name_; }

  // Read tokens [begin, begin + count). Throw InvalidArgument beyond the end.
  void read(std::int64_t begin, std::span<std::int64_t> out) const;
  std::vector<std::int64_t> read(std::int64_t begin, std::int64_t count) const;

  // Returns tokens [begin, end) without copying, for example to split off
  // validation data. Throws InvalidArgument for an invalid range.
  Tokens slice(std::int64_t begin, std::int64_t end) const;

 private:
  std::span<const std::byte> bytes_of(
      std::int64_t begin, std::int64_t count) const;

  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
  TokenType type_ = TokenType::U16;
  std::string name_;
};

// Encodes tokens as `type`. Throws InvalidArgument, naming the first token that
// does not fit and its position.
std::vector<std::byte> pack_tokens(
    std::span<const std::int64_t> tokens, TokenType type);

} // namespace argosy::data
