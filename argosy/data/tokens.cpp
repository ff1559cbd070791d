#include "argosy/data/tokens.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "argosy/common/error.h"

namespace argosy::data {

namespace {

static_assert(
    std::endian::native == std::endian::little,
    "token files are little-endian, and copied as they are");

// Calls `function` with a value of the C++ type that `type` names.
template <typename Function>
auto dispatch(TokenType type, Function&& function) {
  switch (type) {
    case TokenType::U8:
      return function(std::uint8_t{});
    case TokenType::I8:
      return function(std::int8_t{});
    case TokenType::I16:
      return function(std::int16_t{});
    case TokenType::U16:
      return function(std::uint16_t{});
    case TokenType::I32:
      return function(std::int32_t{});
    case TokenType::U32:
      return function(std::uint32_t{});
    case TokenType::I64:
      return function(std::int64_t{});
  }
  throw InternalError("[data.tokens] unknown token type");
}

TokenType smallest_type(std::span<const std::int64_t> tokens) {
  const auto largest = std::ranges::max_element(tokens);
  if (largest == tokens.end() || *largest <= 0xff) {
    return TokenType::U8;
  }
  return *largest <= 0xffff ? TokenType::U16 : TokenType::U32;
}

} // namespace

std::size_t size_of(TokenType type) {
  return dispatch(type, [](auto token) { return sizeof(token); });
}

std::string_view name_of(TokenType type) {
  switch (type) {
    case TokenType::U8:
      return "uint8";
    case TokenType::I8:
      return "int8";
    case TokenType::I16:
      return "int16";
    case TokenType::U16:
      return "uint16";
    case TokenType::I32:
      return "int32";
    case TokenType::U32:
      return "uint32";
    case TokenType::I64:
      return "int64";
  }
  throw InternalError("[data.tokens] unknown token type");
}

std::vector<std::byte> pack_tokens(
    std::span<const std::int64_t> tokens, TokenType type) {
  std::vector<std::byte> bytes(tokens.size() * size_of(type));
  dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      ARGOSY_CHECK(
          std::in_range<T>(tokens[i]),
          "[data.tokens] token {} at {}, expected a {}",
          tokens[i],
          i,
          name_of(type));
      const auto token = static_cast<T>(tokens[i]);
      std::memcpy(bytes.data() + i * sizeof(T), &token, sizeof(T));
    }
  });
  return bytes;
}

Tokens::Tokens(std::span<const std::int64_t> tokens)
    : type_(smallest_type(tokens)), name_("tokens in memory") {
  const auto packed = std::make_shared<const std::vector<std::byte>>(
      pack_tokens(tokens, type_));
  bytes_ = *packed;
  owner_ = packed;
}

Tokens::Tokens(
    std::shared_ptr<const void> owner,
    std::span<const std::byte> bytes,
    TokenType type,
    std::string name)
    : owner_(std::move(owner)),
      bytes_(bytes),
      type_(type),
      name_(std::move(name)) {
  ARGOSY_CHECK(
      bytes.size() % size_of(type) == 0,
      "[data.tokens] {}: {} bytes of tokens, expected a multiple of {} for {}",
      name_,
      bytes.size(),
      size_of(type),
      name_of(type));
}

std::int64_t Tokens::size() const {
  return static_cast<std::int64_t>(bytes_.size() / size_of(type_));
}

std::span<const std::byte> Tokens::bytes_of(
    std::int64_t begin, std::int64_t count) const {
  ARGOSY_CHECK(
      begin >= 0 && count >= 0 && begin <= size() && count <= size() - begin,
      "[data.tokens] {}: {} tokens from {} on, expected within 0 to {}",
      name_,
      count,
      begin,
      size());
  const std::size_t width = size_of(type_);
  return bytes_.subspan(
      static_cast<std::size_t>(begin) * width,
      static_cast<std::size_t>(count) * width);
}

void Tokens::read(std::int64_t begin, std::span<std::int64_t> out) const {
  const auto bytes = bytes_of(begin, static_cast<std::int64_t>(out.size()));
  dispatch(type_, [&](auto token) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::memcpy(&token, bytes.data() + i * sizeof(token), sizeof(token));
      out[i] = std::int64_t{+token}; // unary plus keeps the sign of an int8
    }
  });
}

std::vector<std::int64_t> Tokens::read(
    std::int64_t begin, std::int64_t count) const {
  bytes_of(begin, count); // checks the range before allocating
  std::vector<std::int64_t> out(static_cast<std::size_t>(count));
  read(begin, out);
  return out;
}

Tokens Tokens::slice(std::int64_t begin, std::int64_t end) const {
  return {owner_, bytes_of(begin, end - begin), type_, name_};
}

} // namespace argosy::data
