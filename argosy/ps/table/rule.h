#pragma once

#include <limits>
#include <string_view>

namespace argosy::ps {

// How a gradient changes a row's weights: the rules of the reference, and Sum.
enum class Rule {
  Naive,      // w -= lr g
  AdaGrad,    // one sum of squares for the whole row
  StdAdaGrad, // one for each weight
  AdaGradV2,  // as AdaGrad, with the sum updated before it is used
  Adam,       // moments for each weight
  SharedAdam, // moments shared by the row
  Sum,        // w += g: tables of deltas (geo)
};

// "naive", "adagrad", "std_adagrad", "adagrad_v2", "adam", "shared_adam",
// "sum": names of the strategy's sparse_optimizer.
std::string_view to_string(Rule rule);

struct RuleConfig {
  Rule rule = Rule::AdaGrad;
  float learning_rate = 0.05f;
  float initial_range = 1e-4f; // weights begin in [-range, range)
  float initial_g2sum = 3;     // AdaGrad, StdAdaGrad
  float beta1 = 0.9f;          // Adam, SharedAdam
  float beta2 = 0.999f;
  float epsilon = 1e-8f; // Adam, SharedAdam, AdaGradV2
  // Weights are clamped to these after each update.
  float min_weight = -std::numeric_limits<float>::max();
  float max_weight = std::numeric_limits<float>::max();

  bool operator==(const RuleConfig&) const = default;
};

// How many floats of state the rule keeps for `dim` weights.
int state_size(Rule rule, int dim);

} // namespace argosy::ps
