#include "argosy/expert/row_kernels.h"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace argosy::expert {

namespace {

// Bytes of rows per thread: enough for some microseconds of work.
constexpr std::int64_t kGrainBytes = 64 << 10;

std::int64_t row_bytes(const at::Tensor& rows) {
  return rows.size(1) * static_cast<std::int64_t>(rows.element_size());
}

std::int64_t grain_of(const at::Tensor& rows) {
  const std::int64_t bytes = row_bytes(rows);
  return bytes > 0 ? kGrainBytes / bytes + 1 : kGrainBytes;
}

at::Tensor like(const at::Tensor& rows, std::int64_t count) {
  return at::empty({count, rows.size(1)}, rows.options());
}

// The slots and weights of the tokens' choices, and how many there are.
template <typename Real>
struct Choices {
  Choices(const at::Tensor& its_slots, const at::Tensor& its_weights)
      : slots(its_slots.data_ptr<std::int64_t>()),
        weights(its_weights.defined() ? its_weights.data_ptr<Real>() : nullptr),
        k(its_slots.size(1)) {}

  Real weight(std::int64_t i) const { return weights ? weights[i] : Real(1); }

  const std::int64_t* const slots;
  const Real* const weights; // null: ones
  const std::int64_t k;
};

template <typename Scalar, typename Real>
void add_row(Real* sum, const Scalar* row, Real weight, std::int64_t d) {
  for (std::int64_t i = 0; i < d; ++i) {
    sum[i] += weight * static_cast<Real>(row[i]);
  }
}

// out = weight * grad; returns grad . row. Sums in separate lanes, so that the
// compiler can vectorize it.
template <typename Scalar, typename Real>
Real scale_and_dot(
    Scalar* out,
    const Scalar* grad,
    const Scalar* row,
    Real weight,
    std::int64_t d) {
  constexpr std::int64_t kLanes = 16;
  std::array<Real, kLanes> sums{};
  std::int64_t i = 0;
  for (; i + kLanes <= d; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const Real value = static_cast<Real>(grad[i + lane]);
      sums[lane] += value * static_cast<Real>(row[i + lane]);
      out[i + lane] = static_cast<Scalar>(weight * value);
    }
  }
  Real sum = 0;
  for (; i < d; ++i) {
    const Real value = static_cast<Real>(grad[i]);
    sum += value * static_cast<Real>(row[i]);
    out[i] = static_cast<Scalar>(weight * value);
  }
  for (const Real lane : sums) {
    sum += lane;
  }
  return sum;
}

template <typename Body>
void for_each_token(const at::Tensor& rows, std::int64_t tokens, Body body) {
  at::parallel_for(
      0, tokens, grain_of(rows), [&](std::int64_t begin, std::int64_t end) {
        body(begin, end);
      });
}

// Sums in at least float32 and rounds once. A thread owns whole tokens, so that
// the sum of a token has one order, whatever the number of threads.
template <typename Scalar>
void collect(
    const at::Tensor& rows,
    const at::Tensor& slots,
    const at::Tensor& weights,
    const at::Tensor& out) {
  using Real = at::opmath_type<Scalar>;
  const Choices<Real> choices(slots, weights);
  const std::int64_t d = rows.size(1);
  const auto* from = rows.data_ptr<Scalar>();
  auto* to = out.data_ptr<Scalar>();
  for_each_token(rows, slots.size(0), [&](auto begin, auto end) {
    std::vector<Real> sum(d);
    for (std::int64_t t = begin; t < end; ++t) {
      std::ranges::fill(sum, Real(0));
      for (std::int64_t i = t * choices.k; i < (t + 1) * choices.k; ++i) {
        if (choices.slots[i] >= 0) {
          add_row(
              sum.data(), from + choices.slots[i] * d, choices.weight(i), d);
        }
      }
      std::copy(sum.begin(), sum.end(), to + t * d);
    }
  });
}

// Each slot belongs to one choice, so threads never write to the same row.
template <typename Scalar>
void collect_backward(
    const at::Tensor& grad,
    const at::Tensor& rows,
    const at::Tensor& slots,
    const at::Tensor& weights,
    const at::Tensor& grad_rows,
    const at::Tensor& grad_weights) {
  using Real = at::opmath_type<Scalar>;
  const Choices<Real> choices(slots, weights);
  const std::int64_t d = rows.size(1);
  const auto* in = grad.data_ptr<Scalar>();
  const auto* from = rows.data_ptr<Scalar>();
  auto* to = grad_rows.data_ptr<Scalar>();
  auto* dots = grad_weights.data_ptr<Real>();
  for_each_token(rows, slots.size(0), [&](auto begin, auto end) {
    for (std::int64_t i = begin * choices.k; i < end * choices.k; ++i) {
      const std::int64_t slot = choices.slots[i];
      if (slot >= 0) {
        dots[i] = scale_and_dot(
            to + slot * d,
            in + i / choices.k * d,
            from + slot * d,
            choices.weight(i),
            d);
      }
    }
  });
}

} // namespace

at::Tensor move_rows(
    const at::Tensor& rows, const std::vector<RowBlock>& blocks, bool back) {
  if (blocks.empty()) {
    return rows;
  }
  const std::int64_t bytes = row_bytes(rows);
  at::Tensor moved = at::empty_like(rows);
  const auto* from = static_cast<const char*>(rows.data_ptr());
  auto* to = static_cast<char*>(moved.data_ptr());
  at::parallel_for(
      0,
      static_cast<std::int64_t>(blocks.size()),
      1,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const RowBlock& block = blocks[i];
          std::memcpy(
              to + (back ? block.from : block.to) * bytes,
              from + (back ? block.to : block.from) * bytes,
              block.rows * bytes);
        }
      });
  return moved;
}

at::Tensor spread_rows(
    const at::Tensor& tokens, const at::Tensor& slots, std::int64_t count) {
  at::Tensor out = like(tokens, count);
  const std::int64_t bytes = row_bytes(tokens);
  const std::int64_t k = slots.size(1);
  const auto* places = slots.data_ptr<std::int64_t>();
  const auto* from = static_cast<const char*>(tokens.data_ptr());
  auto* to = static_cast<char*>(out.data_ptr());
  for_each_token(tokens, slots.size(0), [&](auto begin, auto end) {
    for (std::int64_t i = begin * k; i < end * k; ++i) {
      if (places[i] >= 0) {
        std::memcpy(to + places[i] * bytes, from + i / k * bytes, bytes);
      }
    }
  });
  return out;
}

at::Tensor collect_rows(
    const at::Tensor& rows,
    const at::Tensor& slots,
    const at::Tensor& weights) {
  at::Tensor out = like(rows, slots.size(0));
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, rows.scalar_type(), "collect_rows", [&] {
        collect<scalar_t>(rows, slots, weights, out);
      });
  return out;
}

std::pair<at::Tensor, at::Tensor> collect_rows_backward(
    const at::Tensor& grad,
    const at::Tensor& rows,
    const at::Tensor& slots,
    const at::Tensor& weights) {
  at::Tensor grad_rows = at::empty_like(rows);
  // Zeros, because dropped choices write nothing. grad_rows needs none: every
  // row that was sent has a choice.
  at::Tensor grad_weights = at::zeros_like(weights);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, rows.scalar_type(), "collect_backward", [&] {
        collect_backward<scalar_t>(
            grad, rows, slots, weights, grad_rows, grad_weights);
      });
  return {grad_rows, grad_weights};
}

} // namespace argosy::expert
