#pragma once

#include <cstdlib>

namespace argosy::testing {

// Tests of ops count collectives, and try thousands of shapes: their ranks do
// not compare plain tensors (see dtensor_check_values()).
inline const int kNoValueChecks = ::setenv("ARGOSY_CHECK_VALUES", "0", 1);

} // namespace argosy::testing
