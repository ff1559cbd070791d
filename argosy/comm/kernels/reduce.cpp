#include "argosy/comm/kernels/reduce.h"

#include <xmmintrin.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "argosy/comm/kernels/kernel_table.h"
#include "argosy/comm/kernels/lowering.h"
#include "argosy/common/error.h"

namespace argosy::comm {

namespace {

using Byte = unsigned char;

// A block of results that are to be streamed is made in a buffer of this size
// first; it stays in the innermost cache.
constexpr std::size_t kStreamBlock = 8192;

// Shorter copies are faster through the caches: they fit the second level.
constexpr std::size_t kLeastStream = std::size_t{1} << 20;

const KernelTable& kernels_of(simd::Isa isa) {
  switch (isa) {
    case simd::Isa::Baseline:
      return kBaselineKernels;
    case simd::Isa::Avx2:
      return kAvx2Kernels;
    case simd::Isa::Avx512:
      return kAvx512Kernels;
  }
  return kBaselineKernels;
}

struct KernelCall {
  ReduceKernel kernel;
  StreamKernel stream;
  std::size_t lane_bytes;
  int divisor;
};

void reduce_streaming(
    const KernelCall& call,
    Byte* out,
    const void* const* inputs,
    int num_inputs,
    std::size_t count) {
  alignas(64) Byte block[kStreamBlock];
  const std::size_t block_count = kStreamBlock / call.lane_bytes;
  std::vector<const void*> at(inputs, inputs + num_inputs);
  for (std::size_t done = 0; done < count; done += block_count) {
    const std::size_t now = std::min(block_count, count - done);
    call.kernel(block, at.data(), num_inputs, now, call.divisor);
    call.stream(out + done * call.lane_bytes, block, now * call.lane_bytes);
    for (const void*& input : at) {
      input = static_cast<const Byte*>(input) + now * call.lane_bytes;
    }
  }
  // Streamed stores are ordered with nothing, not even a release.
  _mm_sfence();
}

void check(int num_inputs, DType dtype, ReduceOp op, int divisor) {
  check_supported(op, dtype);
  ARGOSY_CHECK(
      num_inputs > 0, "[comm.reduce] {} inputs, expected >= 1", num_inputs);
  ARGOSY_CHECK(
      divisor >= 0, "[comm.reduce] divisor {}, expected >= 0", divisor);
}

void check_available(simd::Isa isa) {
  ARGOSY_CHECK(
      isa <= simd::highest_isa(),
      "[comm.reduce] this machine has no {}, at most {}",
      to_string(isa),
      to_string(simd::highest_isa()));
}

void stream_copy(
    const KernelTable& kernels, void* dst, const void* src, std::size_t bytes) {
  kernels.stream(dst, src, bytes);
  _mm_sfence();
}

void reduce_with(
    const KernelTable& kernels,
    void* out,
    const void* const* inputs,
    int num_inputs,
    std::size_t count,
    DType dtype,
    ReduceOp op,
    const ReduceOptions& options) {
  check(num_inputs, dtype, op, options.divisor);
  if (count == 0) {
    return;
  }
  if (num_inputs == 1 && op != ReduceOp::AVG) {
    return copy(out, inputs[0], count * size_of(dtype), options.stream_out);
  }
  const Lowering lowered = lower(op, dtype);
  const KernelCall call{
      kernels.reduce[static_cast<int>(lowered.dtype)]
                    [static_cast<int>(lowered.op)],
      kernels.stream,
      size_of(lowered.dtype),
      options.divisor > 0 ? options.divisor : num_inputs};
  const std::size_t num_lanes = count * static_cast<std::size_t>(lowered.lanes);
  if (options.stream_out) {
    auto* to = static_cast<Byte*>(out);
    return reduce_streaming(call, to, inputs, num_inputs, num_lanes);
  }
  call.kernel(out, inputs, num_inputs, num_lanes, call.divisor);
}

} // namespace

void reduce(
    void* out,
    const void* const* inputs,
    int num_inputs,
    std::size_t count,
    DType dtype,
    ReduceOp op,
    ReduceOptions options) {
  const KernelTable& kernels = kernels_of(simd::current_isa());
  reduce_with(kernels, out, inputs, num_inputs, count, dtype, op, options);
}

void reduce_on(
    simd::Isa isa,
    void* out,
    const void* const* inputs,
    int num_inputs,
    std::size_t count,
    DType dtype,
    ReduceOp op,
    ReduceOptions options) {
  check_available(isa);
  const KernelTable& kernels = kernels_of(isa);
  reduce_with(kernels, out, inputs, num_inputs, count, dtype, op, options);
}

void copy(void* dst, const void* src, std::size_t bytes, bool stream) {
  if (bytes == 0 || dst == src) {
    return;
  }
  if (stream && bytes >= kLeastStream) {
    return stream_copy(kernels_of(simd::current_isa()), dst, src, bytes);
  }
  std::memcpy(dst, src, bytes);
}

void stream_copy_on(
    simd::Isa isa, void* dst, const void* src, std::size_t bytes) {
  check_available(isa);
  stream_copy(kernels_of(isa), dst, src, bytes);
}

} // namespace argosy::comm
