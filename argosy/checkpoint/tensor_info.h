#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "argosy/dtensor/layout/layout.h"

// What a checkpoint knows about a tensor without its values. Torch-free.
namespace argosy::checkpoint {

using dtensor::Box;
using dtensor::Shape;

// The element types of safetensors files that a byte or more hold.
enum class DType : std::uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

std::size_t element_bytes(DType dtype);

// The name in safetensors headers: "F32", "BF16", ...
std::string_view to_string(DType dtype);
// Throws CheckpointError for a name that safetensors does not have, or that has
// less than a byte for an element.
DType dtype_of(std::string_view name);

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape; // of the whole

  bool operator==(const TensorInfo&) const = default;
};

// "[10, 20]"
std::string shape_text(const Shape& shape);

// "model/fc.weight F32 [10, 20]"
std::ostream& operator<<(std::ostream& out, const TensorInfo& info);

} // namespace argosy::checkpoint
