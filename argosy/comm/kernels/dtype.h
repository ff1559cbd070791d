#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace argosy::comm {

// The element type of a buffer, without torch. A Bool is a byte that holds 0 or
// 1; a complex number is its real part followed by its imaginary part.
enum class DType : std::uint8_t {
  Float32,
  Float64,
  Float16,
  BFloat16,
  Int8,
  UInt8,
  Int16,
  Int32,
  Int64,
  Bool,
  Complex64,
  Complex128,
};

inline constexpr int kNumDTypes = 12;

// Bytes of one element.
std::size_t size_of(DType dtype);

// "float32", "bfloat16", "complex64".
std::string_view to_string(DType dtype);

bool is_integer(DType dtype); // false for Bool
bool is_complex(DType dtype);

} // namespace argosy::comm
