#include "argosy/checkpoint/local_pieces.h"

#include <optional>

#include "argosy/checkpoint/boxes.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

using training::HeldPart;

struct TypePair {
  c10::ScalarType torch;
  DType stored;
};

constexpr TypePair kTypes[] = {
    {c10::ScalarType::Bool, DType::kBool},
    {c10::ScalarType::Byte, DType::kU8},
    {c10::ScalarType::Char, DType::kI8},
    {c10::ScalarType::Short, DType::kI16},
    {c10::ScalarType::Half, DType::kF16},
    {c10::ScalarType::BFloat16, DType::kBF16},
    {c10::ScalarType::Int, DType::kI32},
    {c10::ScalarType::Float, DType::kF32},
    {c10::ScalarType::ComplexFloat, DType::kC64},
    {c10::ScalarType::Double, DType::kF64},
    {c10::ScalarType::Long, DType::kI64},
};

// A box of the dims in memory order, as a piece of the whole tensor.
LocalPiece piece_in_order(
    const HeldPart& part, const Box& ordered, std::int64_t first) {
  const std::size_t dims = part.order.size();
  LocalPiece piece{part.box, {}};
  std::vector<std::int64_t> inverse(dims);
  for (std::size_t i = 0; i < dims; ++i) {
    const std::int64_t dim = part.order[i];
    piece.box.offset[dim] = part.box.offset[dim] + ordered.offset[i];
    piece.box.size[dim] = ordered.size[i];
    inverse[dim] = static_cast<std::int64_t>(i);
  }
  piece.values = part.values.narrow(0, first, ordered.numel())
                     .view(ordered.size)
                     .permute(inverse);
  return piece;
}

} // namespace

std::vector<LocalPiece> pieces_of(const HeldPart& part) {
  if (!part.values.defined() || part.box.numel() == 0) {
    return {};
  }
  if (!part.range) {
    return {{part.box, part.values.view(part.box.size)}};
  }
  Shape ordered;
  for (const std::int64_t dim : part.order) {
    ordered.push_back(part.box.size[dim]);
  }
  std::vector<LocalPiece> pieces;
  std::int64_t first = 0;
  for (const Box& box :
       boxes_of_range(ordered, part.range->from, part.range->count)) {
    pieces.push_back(piece_in_order(part, box, first));
    first += box.numel();
  }
  return pieces;
}

DType dtype_of(c10::ScalarType type, const std::string& name) {
  for (const TypePair& pair : kTypes) {
    if (pair.torch == type) {
      return pair.stored;
    }
  }
  throw InvalidArgument(str_format(
      "[checkpoint.save] {} has the type {}, which safetensors files cannot "
      "hold; expected bool, an integer, a float, or a complex float",
      name,
      c10::toString(type)));
}

c10::ScalarType scalar_type_of(DType dtype, const std::string& name) {
  for (const TypePair& pair : kTypes) {
    if (pair.stored == dtype) {
      return pair.torch;
    }
  }
  throw InvalidArgument(str_format(
      "[checkpoint.load] {} has the type {}, which this LibTorch does not have",
      name,
      to_string(dtype)));
}

} // namespace argosy::checkpoint
