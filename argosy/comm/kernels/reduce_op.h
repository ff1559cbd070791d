#pragma once

#include <cstdint>
#include <string_view>

#include "argosy/comm/kernels/dtype.h"

namespace argosy::comm {

// How the inputs of a reduction become one.
//
// Integers wrap around in Sum and Prod. Avg is the Sum divided, for integers
// truncated toward zero. Max and Min give NaN when an input is NaN, as
// torch.maximum does. Of Bools, Sum, Max and BitOr are "or", Prod, Min and
// BitAnd are "and".
enum class ReduceOp : std::uint8_t {
  Sum,
  Max,
  Min,
  Prod,
  Avg,
  BitAnd,
  BitOr,
  BitXor,
};

inline constexpr int kNumReduceOps = 8;

// "sum", "bit_and".
std::string_view to_string(ReduceOp op);

// Bit operations take integers and Bool, Max and Min no complex numbers, Avg no
// Bool; everything else goes.
bool is_supported(ReduceOp op, DType dtype);

// Throws InvalidArgument, naming both, unless is_supported().
void check_supported(ReduceOp op, DType dtype);

} // namespace argosy::comm
