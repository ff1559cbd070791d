#pragma once

#include <string_view>

#include "argosy/comm/kernels/isa.h"
#include "argosy/common/environment.h"

namespace argosy::comm {

// OpenBLAS picks the kernels of its matrix products by the model of the CPU.
// Before 0.3.25 it takes those of 2004 (Prescott) for Intel models that it does
// not know, which are five times slower than those for AVX-512.
//
// The name of better kernels than those for `core`, in the spelling of
// OPENBLAS_CORETYPE; empty when `core` is right, or the user's choice.
std::string_view better_openblas_core(
    std::string_view core, Isa highest, const Environment& environment);

// The kernels that OpenBLAS uses in this process; empty when torch uses another
// BLAS. libargosy.so makes OpenBLAS take better ones as it is loaded.
std::string_view openblas_core();

} // namespace argosy::comm
