#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <system_error>

// Ids and floats in text. Not installed.
namespace argosy::data {

// Reads the number that begins at `at`; returns where it ends, or null if there
// is none, or one that does not fit.
inline const char* read_number(
    const char* at, const char* end, std::uint64_t& value) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  // 19 digits never overflow.
  constexpr int kSafeDigits = std::numeric_limits<std::uint64_t>::digits10;
  const char* p = at;
  const char* const safe = p + std::min<std::ptrdiff_t>(kSafeDigits, end - p);
  std::uint64_t result = 0;
  for (; p != safe && is_digit(*p); ++p) {
    result = result * 10 + static_cast<std::uint64_t>(*p - '0');
  }
  for (; p != end && is_digit(*p); ++p) {
    if (__builtin_mul_overflow(result, std::uint64_t{10}, &result) ||
        __builtin_add_overflow(
            result, static_cast<std::uint64_t>(*p - '0'), &result)) {
      return nullptr;
    }
  }
  if (p == at) {
    return nullptr;
  }
  value = result;
  return p;
}

// The same for finite numbers. One that is too small for a float is zero, as
// everywhere.
inline const char* read_number(const char* at, const char* end, float& value) {
  const auto [stop, error] = std::from_chars(at, end, value);
  if (error == std::errc::result_out_of_range) { // too large or too small?
    long double wide = 0;
    const auto again = std::from_chars(at, end, wide);
    value = 0;
    return again.ec == std::errc() && std::abs(wide) < 1 ? stop : nullptr;
  }
  return error == std::errc() && std::isfinite(value) ? stop : nullptr;
}

// Whether the whole text is one number.
template <typename T>
bool is_number(std::string_view text, T& value) {
  const char* const end = text.data() + text.size();
  return !text.empty() && read_number(text.data(), end, value) == end;
}

} // namespace argosy::data
