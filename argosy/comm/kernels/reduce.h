#pragma once

#include <cstddef>

#include "argosy/comm/kernels/dtype.h"
#include "argosy/comm/kernels/reduce_op.h"
#include "argosy/simd/isa.h"

namespace argosy::comm {

struct ReduceOptions {
  int divisor = 0;         // what AVG divides by; 0 stands for num_inputs
  bool stream_out = false; // write past the caches: nobody reads `out` soon
};

// out[i] = ((in0[i] op in1[i]) op in2[i]) ..., in the order of the inputs.
//
// The value of an element depends only on the elements at its place: not on
// `count`, alignment, chunking or instruction set. The one exception is which
// payload survives where several NaNs meet. Float16 and BFloat16 are
// accumulated in float and rounded once, to nearest even; AVG divides before
// that.
//
// Buffers need no alignment. `out` may be one of the inputs, exactly, and
// overlaps none otherwise. Runs on the calling thread. Throws InvalidArgument
// if the pair is not supported, there is no input or the divisor is negative.
void reduce(
    void* out,
    const void* const* inputs,
    int num_inputs,
    std::size_t count,
    DType dtype,
    ReduceOp op,
    ReduceOptions options = {});

// The same with the kernels of one instruction set, for tests and benches.
// Throws InvalidArgument if the machine does not have it.
void reduce_on(
    simd::Isa isa,
    void* out,
    const void* const* inputs,
    int num_inputs,
    std::size_t count,
    DType dtype,
    ReduceOp op,
    ReduceOptions options = {});

// Copies `bytes` bytes; the buffers are the same or do not overlap. With
// `stream`, large copies bypass the caches; other threads see them once this
// thread releases a lock or an atomic, as with any write.
void copy(void* dst, const void* src, std::size_t bytes, bool stream = false);

// The same with the kernels of one instruction set, and no lower limit.
void stream_copy_on(
    simd::Isa isa, void* dst, const void* src, std::size_t bytes);

} // namespace argosy::comm
