#pragma once

#include "argosy/optim/kernels/simd_weights.h"
#include "argosy/optim/kernels/steps.h"

// What becomes of a weight p with gradient g and states s: the formulas of the
// optimizers, in torch's order of operations but for divisions by what is the
// same for all elements, which are multiplications.
//
// A rule is made of the numbers of a step. kStates says how many states it
// reads, kTouches what else it reads and what it writes, kSums how many sums it
// adds up.

namespace argosy::optim {
namespace {

struct Touches {
  bool reads_grad = true;
  bool writes_weight = true;
  bool writes_states = true;
};

template <typename T>
struct RuleOf {
  using Lane = T;
  using V = Lanes<T>;
  static constexpr Touches kTouches{};
  static constexpr int kSums = 0;
};

// Weight decay is left out when 0: 0 times an infinite weight is no number.
template <typename V, typename T>
inline V decayed(V g, V p, T weight_decay) {
  return weight_decay != 0 ? g + p * weight_decay : g;
}

template <typename T>
struct SgdRule : RuleOf<T> {
  using Step = SgdStep;
  using V = Lanes<T>;
  static constexpr int kStates = 0;
  const T scale, lr, decay;

  explicit SgdRule(const Step& step)
      : scale(step.grad_scale), lr(step.lr), decay(step.weight_decay) {}

  V operator()(V p, V g, V*) const {
    return p - decayed(g * scale, p, decay) * lr;
  }
};

template <typename T>
struct MomentumRule : RuleOf<T> {
  using Step = SgdStep;
  using V = Lanes<T>;
  static constexpr int kStates = 1;
  const T scale, lr, decay, momentum, undampened;
  const bool nesterov, first;

  explicit MomentumRule(const Step& step)
      : scale(step.grad_scale),
        lr(step.lr),
        decay(step.weight_decay),
        momentum(step.momentum),
        undampened(step.undampened),
        nesterov(step.nesterov),
        first(step.first) {}

  V operator()(V p, V g, V* s) const {
    g = decayed(g * scale, p, decay);
    s[0] = first ? g : s[0] * momentum + g * undampened;
    return p - (nesterov ? g + s[0] * momentum : s[0]) * lr;
  }
};

// kKeepsMaximum is amsgrad. A NaN stays one, as in torch::max.
template <typename T, bool kKeepsMaximum>
struct AdamRule : RuleOf<T> {
  using Step = AdamStep;
  using V = Lanes<T>;
  static constexpr int kStates = kKeepsMaximum ? 3 : 2;
  const T scale, decay, shrink, beta1, rest1, beta2, rest2, root, eps, size;

  explicit AdamRule(const Step& step)
      : scale(step.grad_scale),
        decay(step.weight_decay),
        shrink(step.shrink),
        beta1(step.beta1),
        rest1(1 - step.beta1),
        beta2(step.beta2),
        rest2(1 - step.beta2),
        root(1 / step.root_correction2),
        eps(step.eps),
        size(step.step_size) {}

  V operator()(V p, V g, V* s) const {
    p = p * shrink;
    g = decayed(g * scale, p, decay);
    s[0] = s[0] * beta1 + g * rest1;
    s[1] = s[1] * beta2 + g * rest2 * g;
    V square = s[1];
    if constexpr (kKeepsMaximum) {
      // A comparison with a NaN is false, so a NaN in `square` is taken over.
      s[2] = ((s[2] >= square) | (s[2] != s[2])) ? s[2] : square;
      square = s[2];
    }
    return p - s[0] * size / (square_root(square) * root + eps);
  }
};

template <typename T>
struct AdagradRule : RuleOf<T> {
  using Step = AdagradStep;
  using V = Lanes<T>;
  static constexpr int kStates = 1;
  const T scale, lr, decay, eps;

  explicit AdagradRule(const Step& step)
      : scale(step.grad_scale),
        lr(step.lr),
        decay(step.weight_decay),
        eps(step.eps) {}

  V operator()(V p, V g, V* s) const {
    g = decayed(g * scale, p, decay);
    s[0] += g * g;
    return p - g * lr / (square_root(s[0]) + eps);
  }
};

template <typename T>
struct LarsRule : RuleOf<T> {
  using Step = LarsStep;
  using V = Lanes<T>;
  static constexpr int kStates = 1;
  const T scale, lr, decay, momentum;

  explicit LarsRule(const Step& step)
      : scale(step.grad_scale),
        lr(step.lr),
        decay(step.weight_decay),
        momentum(step.momentum) {}

  V operator()(V p, V g, V* s) const {
    s[0] = s[0] * momentum + decayed(g * scale, p, decay) * lr;
    return p - s[0];
  }
};

// The direction that both of LAMB's passes compute, from the new averages.
template <typename T>
struct LambNumbers : RuleOf<T> {
  using Step = LambStep;
  using V = Lanes<T>;
  static constexpr int kStates = 2;
  const T correction, root, eps, decay;

  explicit LambNumbers(const Step& step)
      : correction(1 / step.correction1),
        root(1 / step.root_correction2),
        eps(step.eps),
        decay(step.weight_decay) {}

  V direction(V p, const V* s) const {
    const V adam = s[0] * correction / (square_root(s[1]) * root + eps);
    return decayed(adam, p, decay);
  }
};

template <typename T>
struct LambDirectionRule : LambNumbers<T> {
  using Step = LambStep;
  using V = Lanes<T>;
  static constexpr Touches kTouches{.writes_weight = false};
  static constexpr int kSums = 2;
  const T scale, beta1, rest1, beta2, rest2;
  SquareSum<T> sums[kSums];

  explicit LambDirectionRule(const Step& step)
      : LambNumbers<T>(step),
        scale(step.grad_scale),
        beta1(step.beta1),
        rest1(1 - step.beta1),
        beta2(step.beta2),
        rest2(1 - step.beta2) {}

  V operator()(V p, V g, V* s) {
    g = g * scale;
    s[0] = s[0] * beta1 + g * rest1;
    s[1] = s[1] * beta2 + g * rest2 * g;
    sums[0].add(p);
    sums[1].add(this->direction(p, s));
    return p;
  }
};

template <typename T>
struct LambUpdateRule : LambNumbers<T> {
  using Step = LambStep;
  using V = Lanes<T>;
  static constexpr Touches kTouches{
      .reads_grad = false, .writes_states = false};
  const T lr;

  explicit LambUpdateRule(const Step& step)
      : LambNumbers<T>(step), lr(step.lr) {}

  V operator()(V p, V, V* s) const { return p - this->direction(p, s) * lr; }
};

// Squares of weights, and with kGrads of gradients.
template <typename T, bool kGrads>
struct NormRule : RuleOf<T> {
  using Step = NormStep;
  using V = Lanes<T>;
  static constexpr Touches kTouches{
      .reads_grad = kGrads, .writes_weight = false};
  static constexpr int kStates = 0;
  static constexpr int kSums = kGrads ? 2 : 1;
  const T scale;
  SquareSum<T> sums[kSums];

  explicit NormRule(const Step& step) : scale(step.grad_scale) {}

  V operator()(V p, V g, V*) {
    sums[0].add(p);
    if constexpr (kGrads) {
      sums[1].add(g * scale);
    }
    return p;
  }
};

template <typename T>
struct ScaleRule : RuleOf<T> {
  using Step = ScaleStep;
  using V = Lanes<T>;
  static constexpr Touches kTouches{.reads_grad = false};
  static constexpr int kStates = 0;
  const T factor;

  explicit ScaleRule(const Step& step) : factor(step.factor) {}
  V operator()(V p, V, V*) const { return p * factor; }
};

// A NaN stays one.
template <typename T>
struct ClampRule : RuleOf<T> {
  using Step = ClampStep;
  using V = Lanes<T>;
  static constexpr Touches kTouches{.reads_grad = false};
  static constexpr int kStates = 0;
  const V low, high;

  explicit ClampRule(const Step& step)
      : low(V{} + static_cast<T>(step.low)),
        high(V{} + static_cast<T>(step.high)) {}
  V operator()(V p, V, V*) const {
    p = p < low ? low : p;
    return p > high ? high : p;
  }
};

template <typename T>
struct EmaRule : RuleOf<T> {
  using Step = EmaStep;
  using V = Lanes<T>;
  static constexpr Touches kTouches{
      .reads_grad = false, .writes_weight = false};
  static constexpr int kStates = 1;
  const T decay, rest;

  explicit EmaRule(const Step& step)
      : decay(step.decay), rest(1 - step.decay) {}

  V operator()(V p, V, V* s) const {
    s[0] = s[0] * decay + p * rest;
    return p;
  }
};

} // namespace
} // namespace argosy::optim
