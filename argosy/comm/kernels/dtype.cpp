#include "argosy/comm/kernels/dtype.h"

#include "argosy/common/error.h"

namespace argosy::comm {

namespace {

struct Traits {
  std::string_view name;
  std::size_t size;
};

constexpr Traits kTraits[kNumDTypes] = {
    {"float32", 4},
    {"float64", 8},
    {"float16", 2},
    {"bfloat16", 2},
    {"int8", 1},
    {"uint8", 1},
    {"int16", 2},
    {"int32", 4},
    {"int64", 8},
    {"bool", 1},
    {"complex64", 8},
    {"complex128", 16},
};

const Traits& traits(DType dtype) {
  const auto index = static_cast<int>(dtype);
  ARGOSY_CHECK(
      index < kNumDTypes, "[comm.dtype] {} is not a value of DType", index);
  return kTraits[index];
}

} // namespace

std::size_t size_of(DType dtype) {
  return traits(dtype).size;
}

std::string_view to_string(DType dtype) {
  return traits(dtype).name;
}

bool is_integer(DType dtype) {
  return dtype >= DType::Int8 && dtype <= DType::Int64;
}

bool is_complex(DType dtype) {
  return dtype == DType::Complex64 || dtype == DType::Complex128;
}

} // namespace argosy::comm
