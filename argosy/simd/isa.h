#pragma once

#include <string_view>

#include "argosy/common/environment.h"

namespace argosy::simd {

// Instruction sets that the kernels are compiled for, lowest first.
enum class Isa {
  Baseline, // SSE2, which every x86-64 has
  Avx2,     // with F16C
  Avx512,   // F, BW, VL and DQ
};

// "baseline", "avx2", "avx512": also the values of ARGOSY_ISA.
std::string_view to_string(Isa isa);

// The highest that this machine has.
Isa highest_isa();

// `highest`, or what ARGOSY_ISA asks for when that is lower. Throws
// InvalidArgument for an unknown name.
Isa choose_isa(const Environment& environment, Isa highest);

// What the kernels use. Chosen by the first call.
Isa current_isa();

} // namespace argosy::simd
