#pragma once

// Include the file of the instruction set before this one.

#include "argosy/ps/table/rule_loops.h"

namespace argosy::ps {
namespace {

// Calls f(i, count) for eight elements at a time, then for the rest.
template <typename F>
inline void for_blocks(std::size_t size, const F& f) {
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    f(i, kLanes);
  }
  if (i < size) {
    f(i, size - i);
  }
}

void dense_sgd(const DenseNumbers& numbers, const DenseUpdate& update) {
  float* const values = update.values;
  for_blocks(update.size, [&](std::size_t i, std::size_t n) {
    const Lanes g = load_some(update.gradient + i, n);
    store_some(values + i, load_some(values + i, n) - numbers.rate * g, n);
  });
}

// Columns: first and second moments.
void dense_adam(const DenseNumbers& numbers, const DenseUpdate& update) {
  float* const values = update.values;
  const float b1 = numbers.beta1;
  const float b2 = numbers.beta2;
  const float epsilon = numbers.epsilon;
  for_blocks(update.size, [&](std::size_t i, std::size_t n) {
    const Lanes g = load_some(update.gradient + i, n);
    const Lanes m = b1 * load_some(update.columns[0] + i, n) + (1 - b1) * g;
    const Lanes v =
        b2 * load_some(update.columns[1] + i, n) + (1 - b2) * (g * g);
    store_some(update.columns[0] + i, m, n);
    store_some(update.columns[1] + i, v, n);
    const Lanes step = numbers.rate * (m / (root(v) + epsilon));
    store_some(values + i, load_some(values + i, n) - step, n);
  });
}

// Columns: velocity, decayed sum of squares, decayed count.
void dense_adam_d2sum(const DenseNumbers& numbers, const DenseUpdate& update) {
  float* const values = update.values;
  const float decay = numbers.ada_decay_rate;
  for_blocks(update.size, [&](std::size_t i, std::size_t n) {
    const Lanes g = load_some(update.gradient + i, n);
    const Lanes d2 = load_some(update.columns[2] + i, n) * decay + 1.0f;
    const Lanes g2 = load_some(update.columns[1] + i, n) * decay + g * g;
    const Lanes small = d2 * numbers.ada_epsilon;
    const Lanes scale = root((d2 + small) / (g2 + small));
    const Lanes velocity =
        (load_some(update.columns[0] + i, n) + g) * numbers.moment_decay_rate -
        g;
    store_some(update.columns[0] + i, velocity, n);
    store_some(update.columns[1] + i, g2, n);
    store_some(update.columns[2] + i, d2, n);
    const Lanes step = numbers.rate * (velocity * scale);
    store_some(values + i, load_some(values + i, n) + step, n);
  });
}

void dense_sum(const DenseNumbers&, const DenseUpdate& update) {
  float* const values = update.values;
  for_blocks(update.size, [&](std::size_t i, std::size_t n) {
    const Lanes g = load_some(update.gradient + i, n);
    store_some(values + i, load_some(values + i, n) + g, n);
  });
}

void dense_summary(const DenseNumbers& numbers, const DenseUpdate& update) {
  float* const values = update.values;
  for_blocks(update.size, [&](std::size_t i, std::size_t n) {
    const Lanes g = load_some(update.gradient + i, n);
    const Lanes kept = load_some(values + i, n) * numbers.summary_decay_rate;
    store_some(values + i, kept + g, n);
  });
}

void dense_adagrad(const DenseNumbers& numbers, const DenseUpdate& update) {
  float* const values = update.values;
  for_blocks(update.size, [&](std::size_t i, std::size_t n) {
    const Lanes g = load_some(update.gradient + i, n);
    const Lanes g2 = load_some(update.columns[0] + i, n) + g * g;
    store_some(update.columns[0] + i, g2, n);
    const Lanes step = numbers.rate * g / (root(g2) + numbers.epsilon);
    store_some(values + i, load_some(values + i, n) - step, n);
  });
}

void dense_momentum(const DenseNumbers& numbers, const DenseUpdate& update) {
  float* const values = update.values;
  for_blocks(update.size, [&](std::size_t i, std::size_t n) {
    const Lanes velocity =
        numbers.momentum * load_some(update.columns[0] + i, n) +
        load_some(update.gradient + i, n);
    store_some(update.columns[0] + i, velocity, n);
    const Lanes step = numbers.rate * velocity;
    store_some(values + i, load_some(values + i, n) - step, n);
  });
}

constexpr RuleKernels make_rule_kernels() {
  return {
      {update_naive,
       update_adagrad,
       update_std_adagrad,
       update_adagrad_v2,
       update_adam,
       update_shared_adam,
       update_sum},
      {update_rows<update_naive>,
       update_rows<update_adagrad>,
       update_rows<update_std_adagrad>,
       update_rows<update_adagrad_v2>,
       update_rows<update_adam>,
       update_rows<update_shared_adam>,
       update_rows<update_sum>},
      {dense_sgd,
       dense_adam,
       dense_adam_d2sum,
       dense_sum,
       dense_summary,
       dense_adagrad,
       dense_momentum},
      copy_rows,
      all_finite};
}

} // namespace
} // namespace argosy::ps
