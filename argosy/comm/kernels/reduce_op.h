#pragma once

#include <cstdint>
#include <string_view>

#include "argosy/comm/kernels/dtype.h"

namespace argosy::comm {

// How a reduction combines its inputs.
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

// Bit operations support integers and Bool, MAX and MIN all but complex
// numbers, AVG all but Bool, the others everything.
bool is_supported(ReduceOp op, DType dtype);

// Throws InvalidArgument, naming both, unless is_supported().
void check_supported(ReduceOp op, DType dtype);

struct Reduction {
  DType dtype;
  ReduceOp op;
};

} // namespace argosy::comm
