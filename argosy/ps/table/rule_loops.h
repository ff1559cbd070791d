#pragma once

// Include the file of the instruction set before this one.

#include <type_traits>

#include "argosy/ps/table/rule_kernels.h"

namespace argosy::ps {
namespace {

// Inlined wherever the size of rows is known.
#define ARGOSY_ROW_LOOP __attribute__((always_inline)) inline

// Eight lanes on every instruction set: sums over a row so have one order.
constexpr std::size_t kLanes = 8;
using Lanes = simd::VectorOf<float, 32>::Type;
using Quad = simd::VectorOf<float, 16>::Type;

inline Lanes load_lanes(const float* from) {
  Lanes value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}

inline Lanes load_lanes(const float* from, std::size_t count) {
  Lanes value{};
  for (std::size_t i = 0; i < count; ++i) {
    value[i] = from[i];
  }
  return value;
}

inline void store_lanes(float* to, Lanes value) {
  __builtin_memcpy(to, &value, sizeof(value));
}

inline void store_lanes(float* to, Lanes value, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = value[i];
  }
}

inline Lanes root(Lanes value) {
#ifdef __AVX__
  return (Lanes)_mm256_sqrt_ps((__m256)value);
#else
  Quad halves[2];
  __builtin_memcpy(halves, &value, sizeof(value));
  halves[0] = (Quad)_mm_sqrt_ps((__m128)halves[0]);
  halves[1] = (Quad)_mm_sqrt_ps((__m128)halves[1]);
  __builtin_memcpy(&value, halves, sizeof(value));
  return value;
#endif
}

inline float root(float value) {
  return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(value)));
}

inline float sum(Lanes v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

// NaN stays NaN.
inline Lanes clamp(const RuleConfig& config, Lanes value) {
  const Lanes low = Lanes{} + config.min_weight;
  const Lanes high = Lanes{} + config.max_weight;
  value = value < low ? low : value;
  return value > high ? high : value;
}

// Calls f(lanes of weights, lanes of gradient, begin, count) for a row eight at
// a time, and stores the weights that it returns. Lanes past the end are zero.
template <typename F>
inline void for_lanes(const RowUpdate& row, const F& f) {
  float* const weights = row.weights;
  const float* const gradient = row.gradient;
  const std::size_t dim = row.dim;
  std::size_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) {
    store_lanes(
        weights + i,
        f(load_lanes(weights + i), load_lanes(gradient + i), i, kLanes));
  }
  if (i < dim) {
    const std::size_t rest = dim - i;
    store_lanes(
        weights + i,
        f(load_lanes(weights + i, rest),
          load_lanes(gradient + i, rest),
          i,
          rest),
        rest);
  }
}

inline Lanes load_some(const float* from, std::size_t count) {
  return count == kLanes ? load_lanes(from) : load_lanes(from, count);
}

inline void store_some(float* to, Lanes value, std::size_t count) {
  if (count == kLanes) {
    store_lanes(to, value);
  } else {
    store_lanes(to, value, count);
  }
}

ARGOSY_ROW_LOOP void update_naive(
    const RuleConfig& config, const RowUpdate& row) {
  const float rate = config.learning_rate;
  for_lanes(row, [&](Lanes w, Lanes g, std::size_t, std::size_t) {
    return clamp(config, w - rate * g);
  });
}

ARGOSY_ROW_LOOP void update_sum(
    const RuleConfig& config, const RowUpdate& row) {
  for_lanes(row, [&](Lanes w, Lanes g, std::size_t, std::size_t) {
    return clamp(config, w + g);
  });
}

ARGOSY_ROW_LOOP void update_adagrad(
    const RuleConfig& config, const RowUpdate& row) {
  const float g0 = config.initial_g2sum;
  const float rate = config.learning_rate * root(g0 / (g0 + row.state[0]));
  Lanes squares{};
  for_lanes(row, [&](Lanes w, Lanes g, std::size_t, std::size_t) {
    const Lanes scaled = g / row.scale;
    squares += scaled * scaled;
    return clamp(config, w - rate * scaled);
  });
  row.state[0] += sum(squares) / static_cast<float>(row.dim);
}

ARGOSY_ROW_LOOP void update_std_adagrad(
    const RuleConfig& config, const RowUpdate& row) {
  const float g0 = config.initial_g2sum;
  const float rate = config.learning_rate;
  for_lanes(row, [&](Lanes w, Lanes g, std::size_t at, std::size_t count) {
    const Lanes g2 = load_some(row.state + at, count);
    const Lanes scaled = g / row.scale;
    store_some(row.state + at, g2 + scaled * scaled, count);
    return clamp(config, w - rate * scaled * root(g0 / (g0 + g2)));
  });
}

ARGOSY_ROW_LOOP void update_adagrad_v2(
    const RuleConfig& config, const RowUpdate& row) {
  Lanes squares{};
  for (std::size_t i = 0; i < row.dim; i += kLanes) {
    const std::size_t count = row.dim - i < kLanes ? row.dim - i : kLanes;
    const Lanes scaled = load_some(row.gradient + i, count) / row.scale;
    squares += scaled * scaled;
  }
  row.state[0] += sum(squares) / static_cast<float>(row.dim);
  const float rate =
      config.learning_rate / (root(row.state[0]) + config.epsilon);
  for_lanes(row, [&](Lanes w, Lanes g, std::size_t, std::size_t) {
    return clamp(config, w - rate * (g / row.scale));
  });
}

// The corrected rate; then the powers of beta, which stand one behind the
// other, make a step. Tiny ones become zero: 1 minus either is 1, and
// subnormal numbers are slow.
inline float adam_rate(const RuleConfig& config, float* powers) {
  const float rate =
      config.learning_rate * root(1 - powers[1]) / (1 - powers[0]);
  constexpr float kTiny = 1e-20f;
  powers[0] = powers[0] < kTiny ? 0 : powers[0] * config.beta1;
  powers[1] = powers[1] < kTiny ? 0 : powers[1] * config.beta2;
  return rate;
}

ARGOSY_ROW_LOOP void update_adam(
    const RuleConfig& config, const RowUpdate& row) {
  const float rate = adam_rate(config, row.state + 2 * row.dim);
  const float b1 = config.beta1;
  const float b2 = config.beta2;
  for_lanes(row, [&](Lanes w, Lanes g, std::size_t at, std::size_t count) {
    float* const first = row.state + at;
    float* const second = row.state + row.dim + at;
    const Lanes m = b1 * load_some(first, count) + (1 - b1) * g;
    const Lanes v = b2 * load_some(second, count) + (1 - b2) * g * g;
    store_some(first, m, count);
    store_some(second, v, count);
    return clamp(config, w - rate * (m / (root(v) + config.epsilon)));
  });
}

ARGOSY_ROW_LOOP void update_shared_adam(
    const RuleConfig& config, const RowUpdate& row) {
  const float rate = adam_rate(config, row.state + 2);
  const float b1 = config.beta1;
  const float b2 = config.beta2;
  const float m0 = b1 * row.state[0];
  const float v0 = b2 * row.state[1];
  Lanes sum_g{};
  Lanes sum_squares{};
  for_lanes(row, [&](Lanes w, Lanes g, std::size_t, std::size_t) {
    const Lanes m = m0 + (1 - b1) * g;
    const Lanes v = v0 + (1 - b2) * g * g;
    sum_g += g;
    sum_squares += g * g;
    return clamp(config, w - rate * (m / (root(v) + config.epsilon)));
  });
  const float count = static_cast<float>(row.dim);
  row.state[0] = m0 + (1 - b1) * (sum(sum_g) / count);
  row.state[1] = v0 + (1 - b2) * (sum(sum_squares) / count);
}

// Calls f with the size of rows: as a constant if it is a usual one.
template <typename F>
ARGOSY_ROW_LOOP void with_dim(std::size_t dim, const F& f) {
  switch (dim) {
    case 8:
      return f(std::integral_constant<std::size_t, 8>());
    case 16:
      return f(std::integral_constant<std::size_t, 16>());
    case 32:
      return f(std::integral_constant<std::size_t, 32>());
    default:
      return f(dim);
  }
}

template <UpdateRow kUpdate>
void update_rows(const RuleConfig& config, const RowsUpdate& update) {
  const RuleConfig own = config; // which no store to a row can change
  const float* gradient = update.gradients;
  with_dim(update.dim, [&](const auto dim) {
    for (std::size_t i = 0; i < update.count; ++i, gradient += dim) {
      float* const weights = update.rows[i];
      kUpdate(own, {weights, weights + dim, gradient, dim, 1});
    }
  });
}

void copy_rows(const RowsCopy& copy) {
  float* out = copy.out;
  with_dim(copy.dim, [&](const auto dim) {
    for (std::size_t i = 0; i < copy.count; ++i, out += dim) {
      __builtin_memcpy(out, copy.rows[i], dim * sizeof(float));
    }
  });
}

bool all_finite(const float* values, std::size_t size) {
  // x - x is zero unless x is infinite or NaN.
  Lanes bad{};
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const Lanes v = load_lanes(values + i);
    bad += v - v;
  }
  const Lanes v = load_lanes(values + i, size - i);
  bad += v - v;
  return sum(bad) == 0;
}

} // namespace
} // namespace argosy::ps
