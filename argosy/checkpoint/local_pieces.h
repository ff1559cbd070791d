#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "argosy/checkpoint/tensor_info.h"
#include "argosy/training/held_part.h"

// Tensors in the words of the format. Not installed.
namespace argosy::checkpoint {

// A box of a whole tensor that this rank has: `values` is a view of the sizes
// of the box, with any strides.
struct LocalPiece {
  Box box;
  at::Tensor values;
};

// The boxes that a part consists of: one, or up to 2 * dims - 1 for a range.
std::vector<LocalPiece> pieces_of(const training::HeldPart& part);

// Throws InvalidArgument, with `name`, for types that safetensors does not
// have.
DType dtype_of(c10::ScalarType type, const std::string& name);
c10::ScalarType scalar_type_of(DType dtype, const std::string& name);

} // namespace argosy::checkpoint
