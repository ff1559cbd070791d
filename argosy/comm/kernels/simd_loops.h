#pragma once

#include <type_traits>

#include "argosy/comm/kernels/kernel_table.h"
#include "argosy/comm/kernels/simd_ops.h"
#include "argosy/simd/formats.h"

// The loops that reduce buffers, and the table of one instruction set.
//
// A step takes kUnroll vectors from every input, in the order of the inputs,
// and keeps the partial results in registers. What is left of a buffer goes
// through the same code padded to a vector, so an element's value does not
// depend on where it stands.

namespace argosy::comm {
namespace {

constexpr int kUnroll = 4;

// Integers, summed without sign since those wrap; T decides how they divide.
template <typename T, typename Unsigned>
struct Integers : Plain<Unsigned> {};

// Counted in pairs of a real and an imaginary part.
template <typename T>
struct Complex : Plain<T> {
  static constexpr size_t kElementBytes = 2 * sizeof(T);
};

template <typename T>
Lanes<T> divide(Plain<T>, Lanes<T> sum, int divisor) {
  return sum / static_cast<T>(divisor);
}

// No instruction set divides integers by vectors.
template <typename T, typename Unsigned>
Lanes<Unsigned> divide(
    Integers<T, Unsigned>, Lanes<Unsigned> sum, int divisor) {
  for (size_t i = 0; i < kVectorBytes / sizeof(T); ++i) {
    const auto lane = static_cast<T>(sum[i]);
    sum[i] = static_cast<Unsigned>(lane / divisor);
  }
  return sum;
}

inline Floats divide(Half, Floats sum, int divisor) {
  return sum / static_cast<float>(divisor);
}

inline FloatsPair divide(BrainPairs, FloatsPair sum, int divisor) {
  const auto by = static_cast<float>(divisor);
  return {sum.even / by, sum.odd / by};
}

// Pointers of a fixed number of inputs stay in registers; kNumInputs == 0 is a
// number that is known only at run time.
template <int kNumInputs>
struct Inputs {
  const Byte* at[kNumInputs];

  Inputs(const void* const* inputs, int) {
    for (int i = 0; i < kNumInputs; ++i) {
      at[i] = static_cast<const Byte*>(inputs[i]);
    }
  }
  static constexpr int size() { return kNumInputs; }
  const Byte* operator[](int i) const { return at[i]; }
};

template <>
struct Inputs<0> {
  const void* const* at;
  int num_inputs;

  Inputs(const void* const* inputs, int count)
      : at(inputs), num_inputs(count) {}
  int size() const { return num_inputs; }
  const Byte* operator[](int i) const {
    return static_cast<const Byte*>(at[i]);
  }
};

template <typename FormatType, typename OpType, bool kDivides = false>
struct Reduction {
  using Format = FormatType;
  using Op = OpType;
  using Accumulator = typename Format::Vector;
  int divisor;

  static Accumulator combine(Accumulator so_far, Accumulator next) {
    if constexpr (std::is_same_v<Accumulator, FloatsPair>) {
      return {
          Op::apply(so_far.even, next.even), Op::apply(so_far.odd, next.odd)};
    } else {
      return Op::apply(so_far, next);
    }
  }

  Accumulator finish(Accumulator value) const {
    if constexpr (kDivides) {
      return divide(Format{}, value, divisor);
    } else {
      return value;
    }
  }
};

template <int kVectors, typename R, typename In>
[[gnu::always_inline]] inline void step(
    const R& reduction, Byte* out, const In& in, size_t at) {
  using Format = typename R::Format;
  typename R::Accumulator sums[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    sums[v] = Format::read(in[0] + at + v * Format::kBytes);
  }
  for (int i = 1; i < in.size(); ++i) {
    const Byte* next = in[i] + at;
    for (int v = 0; v < kVectors; ++v) {
      sums[v] = R::combine(sums[v], Format::read(next + v * Format::kBytes));
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    Format::write(out + at + v * Format::kBytes, reduction.finish(sums[v]));
  }
}

// The last `rest` bytes, fewer than a vector.
template <typename R, typename In>
[[gnu::noinline]] void reduce_rest(
    const R& reduction, Byte* out, const In& in, size_t at, size_t rest) {
  using Format = typename R::Format;
  Byte padded[Format::kBytes] = {};
  __builtin_memcpy(padded, in[0] + at, rest);
  auto sum = Format::read(padded);
  for (int i = 1; i < in.size(); ++i) {
    __builtin_memcpy(padded, in[i] + at, rest);
    sum = R::combine(sum, Format::read(padded));
  }
  Format::write(padded, reduction.finish(sum));
  __builtin_memcpy(out + at, padded, rest);
}

template <typename R, int kNumInputs>
void reduce_buffer(
    const R& reduction,
    void* to,
    const void* const* inputs,
    int num_inputs,
    size_t bytes) {
  constexpr size_t kVector = R::Format::kBytes;
  const Inputs<kNumInputs> in(inputs, num_inputs);
  auto* out = static_cast<Byte*>(to);
  size_t at = 0;
  for (; at + kUnroll * kVector <= bytes; at += kUnroll * kVector) {
    step<kUnroll>(reduction, out, in, at);
  }
  for (; at + kVector <= bytes; at += kVector) {
    step<1>(reduction, out, in, at);
  }
  if (at < bytes) {
    const Inputs<0> any(inputs, num_inputs);
    reduce_rest(reduction, out, any, at, bytes - at);
  }
}

template <typename R>
void reduce_kernel(
    void* out,
    const void* const* inputs,
    int num_inputs,
    size_t count,
    int divisor) {
  const R reduction{divisor};
  const size_t bytes = count * R::Format::kElementBytes;
  switch (num_inputs) {
    case 2:
      return reduce_buffer<R, 2>(reduction, out, inputs, 2, bytes);
    case 3:
      return reduce_buffer<R, 3>(reduction, out, inputs, 3, bytes);
    case 4:
      return reduce_buffer<R, 4>(reduction, out, inputs, 4, bytes);
    case 8:
      return reduce_buffer<R, 8>(reduction, out, inputs, 8, bytes);
    default:
      return reduce_buffer<R, 0>(reduction, out, inputs, num_inputs, bytes);
  }
}

// Whole vectors go past the caches; the ends, which share a vector's place with
// other data, do not.
void stream_kernel(void* dst, const void* src, size_t bytes) {
  auto* to = static_cast<Byte*>(dst);
  const auto* from = static_cast<const Byte*>(src);
  const size_t past = reinterpret_cast<std::uintptr_t>(to) % kVectorBytes;
  size_t head = past == 0 ? 0 : kVectorBytes - past;
  head = head < bytes ? head : bytes;
  __builtin_memcpy(to, from, head);
  size_t at = head;
  for (; at + kVectorBytes <= bytes; at += kVectorBytes) {
    store_past_caches(to + at, from + at);
  }
  __builtin_memcpy(to + at, from + at, bytes - at);
}

// ---- The table --------------------------------------------------------------

struct Row {
  ReduceKernel* kernels;

  template <typename Format, typename Op, bool kDivides = false>
  constexpr void set(ReduceOp op) {
    kernels[static_cast<int>(op)] =
        reduce_kernel<Reduction<Format, Op, kDivides>>;
  }
};

template <typename Format>
constexpr void fill_floats(Row row) {
  row.set<Format, Add>(ReduceOp::SUM);
  row.set<Format, Larger>(ReduceOp::MAX);
  row.set<Format, Smaller>(ReduceOp::MIN);
  row.set<Format, Multiply>(ReduceOp::PROD);
  row.set<Format, Add, true>(ReduceOp::AVG);
}

// MAX and MIN of T, the rest of its unsigned twin.
template <typename T, typename Unsigned>
constexpr void fill_integers(Row row) {
  row.set<Plain<T>, Larger>(ReduceOp::MAX);
  row.set<Plain<T>, Smaller>(ReduceOp::MIN);
  row.set<Integers<T, Unsigned>, Add, true>(ReduceOp::AVG);
}

template <typename Unsigned>
constexpr void fill_wrapping(Row row) {
  row.set<Plain<Unsigned>, Add>(ReduceOp::SUM);
  row.set<Plain<Unsigned>, Multiply>(ReduceOp::PROD);
}

constexpr void fill_bits(Row row) {
  row.set<Plain<std::uint8_t>, And>(ReduceOp::BAND);
  row.set<Plain<std::uint8_t>, Or>(ReduceOp::BOR);
  row.set<Plain<std::uint8_t>, Xor>(ReduceOp::BXOR);
}

constexpr Row row(KernelTable& table, DType dtype) {
  return {table.reduce[static_cast<int>(dtype)]};
}

constexpr void fill_all_integers(KernelTable& table) {
  fill_integers<std::int8_t, std::uint8_t>(row(table, DType::Int8));
  fill_integers<std::uint8_t, std::uint8_t>(row(table, DType::UInt8));
  fill_integers<std::int16_t, std::uint16_t>(row(table, DType::Int16));
  fill_integers<std::int32_t, std::uint32_t>(row(table, DType::Int32));
  fill_integers<std::int64_t, std::uint64_t>(row(table, DType::Int64));
  fill_wrapping<std::uint8_t>(row(table, DType::UInt8));
  fill_wrapping<std::uint16_t>(row(table, DType::Int16));
  fill_wrapping<std::uint32_t>(row(table, DType::Int32));
  fill_wrapping<std::uint64_t>(row(table, DType::Int64));
  fill_bits(row(table, DType::UInt8));
}

constexpr KernelTable make_table() {
  KernelTable table{};
  fill_floats<Plain<float>>(row(table, DType::Float32));
  fill_floats<Plain<double>>(row(table, DType::Float64));
  fill_floats<Half>(row(table, DType::Float16));
  fill_floats<BrainPairs>(row(table, DType::BFloat16));
  row(table, DType::Complex64)
      .set<Complex<float>, ComplexMultiply>(ReduceOp::PROD);
  row(table, DType::Complex128)
      .set<Complex<double>, ComplexMultiply>(ReduceOp::PROD);
  fill_all_integers(table);
  table.stream = stream_kernel;
  return table;
}

} // namespace
} // namespace argosy::comm
