#pragma once

#include <cstddef>

#include "argosy/comm/kernels/dtype.h"
#include "argosy/comm/kernels/reduce_op.h"

namespace argosy::comm {

// `count` lanes; `divisor` counts only for AVG.
using ReduceKernel = void (*)(
    void* out,
    const void* const* inputs,
    int num_inputs,
    std::size_t count,
    int divisor);

// Writes past the caches; whoever calls it fences after the last one.
using StreamKernel = void (*)(void* dst, const void* src, std::size_t bytes);

// The code of one instruction set. Constant data: to look at a table runs none
// of its instructions.
struct KernelTable {
  // Null where Lowering goes to another entry.
  ReduceKernel reduce[kNumDTypes][kNumReduceOps];
  StreamKernel stream;
};

extern const KernelTable kBaselineKernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;

} // namespace argosy::comm
