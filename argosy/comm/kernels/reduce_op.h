#pragma once

#include <cstdint>
#include <string_view>

#include "argosy/comm/kernels/dtype.h"

namespace argosy::comm {

// How the inputs of a reduction become one.
//
// Integers wrap around in SUM and PROD. AVG is the SUM divided, for integers
// truncated toward zero. MAX and MIN give NaN when an input is NaN, as
// torch.maximum does. Of Bools, SUM, MAX and BOR are "or", PROD, MIN and BAND
// are "and". B* work on bits.
enum class ReduceOp : std::uint8_t {
  SUM,
  MAX,
  MIN,
  PROD,
  AVG,
  BAND,
  BOR,
  BXOR,
};

inline constexpr int kNumReduceOps = 8;

// "sum", "bit_and".
std::string_view to_string(ReduceOp op);

// Bit operations take integers and Bool, MAX and MIN no complex numbers, AVG no
// Bool; everything else goes.
bool is_supported(ReduceOp op, DType dtype);

// Throws InvalidArgument, naming both, unless is_supported().
void check_supported(ReduceOp op, DType dtype);

struct Reduction {
  DType dtype;
  ReduceOp op;
};

} // namespace argosy::comm
