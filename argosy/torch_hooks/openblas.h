#pragma once

#include <string_view>

#include "argosy/common/environment.h"
#include "argosy/simd/isa.h"

namespace argosy::torch_hooks {

// OpenBLAS picks the kernels of its matrix products by the model of the CPU.
// Before 0.3.25 it takes those of 2004 (Prescott) for Intel models that it does
// not know, which are five times slower than those for AVX-512.

// The name of better kernels than those for `core`, in the spelling of
// OPENBLAS_CORETYPE; empty when `core` is right, or the user's choice.
std::string_view better_openblas_core(
    std::string_view core, simd::Isa highest, const Environment& environment);

// The kernels that OpenBLAS uses in this process; empty when torch uses another
// BLAS.
std::string_view openblas_core();

// Makes OpenBLAS take better kernels where there are any, and sets
// OPENBLAS_CORETYPE so that child processes do as well. init_parallel_env() and
// spawn() call it. OpenBLAS changes its kernels for all threads at once: no
// other thread may multiply matrices while the first call runs. Thread-safe;
// does nothing where the hook is switched off.
void install_openblas_core();

} // namespace argosy::torch_hooks
