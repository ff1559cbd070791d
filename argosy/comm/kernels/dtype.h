#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace argosy::comm {

// What the elements of a buffer are, without torch. A Bool is a byte that holds
// 0 or 1; complex numbers are a real and an imaginary part next to each other.
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

bool is_integer(DType dtype); // Bool is none
bool is_complex(DType dtype);

} // namespace argosy::comm
