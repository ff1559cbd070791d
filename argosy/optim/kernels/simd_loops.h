#pragma once

#include "argosy/optim/kernels/kernels.h"
#include "argosy/optim/kernels/simd_rules.h"

// The loop over a tile, once for all rules and formats, and the table of one
// instruction set.

namespace argosy::optim {
namespace {

// One vector of elements, from element `at` on.
template <typename Weight, typename Grad, typename Rule>
[[gnu::always_inline]] inline void update_lanes(
    Rule& rule, const Tile& tile, size_t at) {
  using V = typename Rule::V;
  constexpr size_t kStateBytes = sizeof(typename Rule::Lane);
  V states[kMaxStates];
  for (int i = 0; i < Rule::kStates; ++i) {
    states[i] =
        load<V>(static_cast<const Byte*>(tile.states[i]) + at * kStateBytes);
  }
  V grad{};
  if constexpr (Rule::kTouches.reads_grad) {
    grad = Grad::read(
        static_cast<const Byte*>(tile.grad) + at * Grad::kElementBytes);
  }
  const V weight = rule(Weight::read(tile, at), grad, states);
  if constexpr (Rule::kTouches.writes_weight) {
    Weight::write(tile, at, weight);
  }
  if constexpr (Rule::kTouches.writes_states) {
    for (int i = 0; i < Rule::kStates; ++i) {
      store(static_cast<Byte*>(tile.states[i]) + at * kStateBytes, states[i]);
    }
  }
}

// A vector's worth of memory behind a tile of fewer elements. Copied in, and
// out what the kernel may have changed: pointers it does not use are null.
class Padded {
 public:
  // With the bytes of an element of the parameter, its gradient and its states.
  Padded(const Tile& tile, size_t param, size_t grad, size_t state)
      : tile_(tile),
        param_bytes_(tile.count * param),
        state_bytes_(tile.count * state) {
    take(0, tile.param, param_bytes_);
    take(1, tile.grad, tile.count * grad);
    take(2, tile.master, state_bytes_);
    for (int i = 0; i < kMaxStates; ++i) {
      take(3 + i, tile.states[i], state_bytes_);
    }
  }

  Tile tile() {
    Tile padded{.param = bytes_[0], .grad = bytes_[1], .master = bytes_[2]};
    for (int i = 0; i < kMaxStates; ++i) {
      padded.states[i] = bytes_[3 + i];
    }
    return padded;
  }

  void put_weight() {
    put(0, tile_.param, param_bytes_);
    put(2, tile_.master, state_bytes_);
  }
  void put_state(int i) { put(3 + i, tile_.states[i], state_bytes_); }

 private:
  void take(int i, const void* from, size_t bytes) {
    if (from != nullptr) {
      __builtin_memcpy(bytes_[i], from, bytes);
    }
  }
  void put(int i, void* to, size_t bytes) {
    if (to != nullptr) {
      __builtin_memcpy(to, bytes_[i], bytes);
    }
  }

  const Tile tile_;
  const size_t param_bytes_;
  const size_t state_bytes_;
  alignas(64) Byte bytes_[3 + kMaxStates][kVectorBytes] = {};
};

// The last elements, fewer than a vector has. Not inlined, to keep the main
// loop small; runs at most once per tile.
template <typename Weight, typename Grad, typename Rule>
[[gnu::noinline]] void update_rest(Rule& rule, const Tile& rest) {
  Padded padded(
      rest,
      Weight::Element::kElementBytes,
      Grad::kElementBytes,
      sizeof(typename Rule::Lane));
  update_lanes<Weight, Grad>(rule, padded.tile(), 0);
  if constexpr (Rule::kTouches.writes_weight) {
    padded.put_weight();
  }
  if constexpr (Rule::kTouches.writes_states) {
    for (int i = 0; i < Rule::kStates; ++i) {
      padded.put_state(i);
    }
  }
}

// Vectors between what is computed and what is fetched from memory.
constexpr size_t kAhead = 1024 / kVectorBytes;

// The processor itself fetches ahead only to the end of a page. Past the end of
// a tile it does no harm.
template <typename Weight, typename Grad, typename Rule>
[[gnu::always_inline]] inline void prefetch(const Tile& tile, size_t at) {
  constexpr size_t kBytes = Weight::Element::kElementBytes;
  // What is only read need not become this core's own.
  const auto* param = static_cast<const Byte*>(tile.param) + at * kBytes;
  if constexpr (Rule::kTouches.writes_weight) {
    __builtin_prefetch(param, 1);
  } else {
    __builtin_prefetch(param, 0);
  }
  if constexpr (Rule::kTouches.reads_grad) {
    __builtin_prefetch(
        static_cast<const Byte*>(tile.grad) + at * Grad::kElementBytes, 0);
  }
  for (int i = 0; i < Rule::kStates; ++i) {
    const auto* state = static_cast<const Byte*>(tile.states[i]);
    __builtin_prefetch(state + at * sizeof(typename Rule::Lane), 1);
  }
}

// Whether a rule changes nothing.
template <typename Rule>
constexpr bool kOnlySums = !Rule::kTouches.writes_weight && Rule::kStates == 0;

template <
    typename Weight,
    typename Rule,
    Format kFormat,
    typename Grad = typename Weight::Element>
void kernel(const Tile& given, const typename Rule::Step& step, double* sums) {
  constexpr size_t kLanes = kVectorBytes / sizeof(typename Rule::Lane);
  // A local copy: stores through Byte pointers may alias `given`, and the
  // compiler would reload its pointers in every iteration.
  const Tile tile = given;
  Rule rule(step);
  size_t at = 0;
  if constexpr (kOnlySums<Rule>) {
    // Two sums side by side: each addition waits for the one before.
    Rule other(step);
    for (; at + 2 * kLanes <= tile.count; at += 2 * kLanes) {
      prefetch<Weight, Grad, Rule>(tile, at + kAhead * kLanes);
      prefetch<Weight, Grad, Rule>(tile, at + (kAhead + 1) * kLanes);
      update_lanes<Weight, Grad>(rule, tile, at);
      update_lanes<Weight, Grad>(other, tile, at + kLanes);
    }
    for (int i = 0; i < Rule::kSums; ++i) {
      sums[i] += other.sums[i].total();
    }
  }
  for (; at + kLanes <= tile.count; at += kLanes) {
    prefetch<Weight, Grad, Rule>(tile, at + kAhead * kLanes);
    update_lanes<Weight, Grad>(rule, tile, at);
  }
  if (at < tile.count) {
    update_rest<Weight, Grad>(
        rule, part_of(tile, kFormat, at, tile.count - at));
  }
  if constexpr (Rule::kSums > 0) {
    for (int i = 0; i < Rule::kSums; ++i) {
      sums[i] += rule.sums[i].total();
    }
  }
}

// ---- The table --------------------------------------------------------------

template <
    template <typename>
    class Half16,
    template <typename>
    class Rule,
    typename Step = typename Rule<float>::Step>
constexpr KernelRow<Step> row() {
  using F = InParam<Plain<float>>;
  using D = InParam<Plain<double>>;
  using H = Half16<Half>;
  using B = Half16<Brain>;
  using Main = Plain<float>;
  return {
      {kernel<F, Rule<float>, Format::Float32>,
       kernel<D, Rule<double>, Format::Float64>,
       kernel<H, Rule<float>, Format::Float16>,
       kernel<B, Rule<float>, Format::BFloat16>,
       kernel<H, Rule<float>, Format::Float16MainGrad, Main>,
       kernel<B, Rule<float>, Format::BFloat16MainGrad, Main>}};
}

template <typename T>
using PlainAdamRule = AdamRule<T, false>;
template <typename T>
using AmsgradRule = AdamRule<T, true>;
template <typename T>
using NormsRule = NormRule<T, true>;
template <typename T>
using SquaresRule = NormRule<T, false>;

constexpr KernelTable make_table() {
  return {
      .sgd = row<InMaster, SgdRule>(),
      .momentum = row<InMaster, MomentumRule>(),
      .adam = row<InMaster, PlainAdamRule>(),
      .amsgrad = row<InMaster, AmsgradRule>(),
      .adagrad = row<InMaster, AdagradRule>(),
      .lars = row<InMaster, LarsRule>(),
      .lamb_direction = row<InMaster, LambDirectionRule>(),
      .lamb_update = row<InMaster, LambUpdateRule>(),
      .norms = row<InMaster, NormsRule>(),
      .squares = row<InParam, SquaresRule>(),
      .scale = row<InParam, ScaleRule>(),
      .clamp = row<InParam, ClampRule>(),
      .ema = row<InParam, EmaRule>(),
  };
}

} // namespace
} // namespace argosy::optim
