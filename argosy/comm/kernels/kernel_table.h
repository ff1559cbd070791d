#pragma once

#include <cstddef>

#include "argosy/comm/kernels/dtype.h"
#include "argosy/comm/kernels/reduce_op.h"

namespace argosy::comm {

// `count` lanes; only AVG uses `divisor`.
using ReduceKernel = void (*)(
    void* out,
    const void* const* inputs,
    int num_inputs,
    std::size_t count,
    int divisor);

// Bypasses the caches; the caller fences after the last call.
using StreamKernel = void (*)(void* dst, const void* src, std::size_t bytes);

// The kernels of one instruction set. Constant data, so that reading a table
// runs none of its instructions.
struct KernelTable {
  // Null where lower() leads to another entry.
  ReduceKernel reduce[kNumDTypes][kNumReduceOps];
  StreamKernel stream;
};

extern const KernelTable kBaselineKernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;

} // namespace argosy::comm
