#include "argosy/checkpoint/tensor_info.h"

#include <algorithm>
#include <array>
#include <ostream>

#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

struct DTypeRow {
  std::string_view name;
  std::size_t bytes;
};

// In the order of DType.
constexpr std::array<DTypeRow, 16> kDTypes = {{
    {"BOOL", 1},
    {"U8", 1},
    {"I8", 1},
    {"F8_E5M2", 1},
    {"F8_E4M3", 1},
    {"I16", 2},
    {"U16", 2},
    {"F16", 2},
    {"BF16", 2},
    {"I32", 4},
    {"U32", 4},
    {"F32", 4},
    {"C64", 8},
    {"F64", 8},
    {"I64", 8},
    {"U64", 8},
}};
static_assert(kDTypes.size() == static_cast<std::size_t>(DType::kU64) + 1);

const DTypeRow& row_of(DType dtype) {
  return kDTypes.at(static_cast<std::size_t>(dtype));
}

} // namespace

std::size_t element_bytes(DType dtype) {
  return row_of(dtype).bytes;
}

std::string_view to_string(DType dtype) {
  return row_of(dtype).name;
}

DType dtype_of(std::string_view name) {
  const auto row = std::ranges::find(kDTypes, name, &DTypeRow::name);
  if (row != kDTypes.end()) {
    return static_cast<DType>(row - kDTypes.begin());
  }
  std::string known;
  for (const DTypeRow& each : kDTypes) {
    known += str(known.empty() ? "" : ", ", each.name);
  }
  throw CheckpointError(
      str("[checkpoint.dtype] unknown element type \"",
          name.substr(0, 40),
          "\", expected one of ",
          known));
}

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    text += str(text.size() > 1 ? ", " : "", size);
  }
  return text + "]";
}

std::ostream& operator<<(std::ostream& out, const TensorInfo& info) {
  return out << info.name << ' ' << to_string(info.dtype) << ' '
             << shape_text(info.shape);
}

} // namespace argosy::checkpoint
