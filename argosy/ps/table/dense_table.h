#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace argosy::ps {

// Optimizers of dense tables, as a server applies them.
enum class DenseRule {
  Sgd,       // w -= lr g
  Adam,      // beta1 0.9, beta2 0.999, epsilon 1e-8
  AdamD2Sum, // momentum over gradients that are scaled by decayed sums
  Sum,       // w += g: deltas (geo)
  Summary,   // w = 0.999999 w + g: statistics of data_norm
  AdaGrad,   // g2 += g g; w -= lr g / (sqrt(g2) + epsilon)
  Momentum,  // v = momentum v + g; w -= lr v
};

// "sgd", "adam", "adam_d2sum", "sum", "summary", "adagrad", "momentum".
std::string_view to_string(DenseRule rule);
DenseRule dense_rule(std::string_view name); // throws InvalidArgument

struct DenseConfig {
  int table_id = 0;
  std::string name = "dense"; // for messages
  DenseRule rule = DenseRule::Sgd;
  float learning_rate = 0.01f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float momentum = 0.9f;           // Momentum
  float moment_decay_rate = 0.99f; // AdamD2Sum
  float ada_decay_rate = 0.9999f;
  float ada_epsilon = 1e-8f;
  float summary_decay_rate = 0.999999f;
  bool refuse_non_finite = true;

  bool operator==(const DenseConfig&) const = default;
};

// Throws InvalidArgument: names the table, the field, its value and what was
// expected.
void check(const DenseConfig& config);

// The part of a dense table that one server holds (dense_range() says which).
// One thread at a time. Values begin as zeros.
class DenseTable {
 public:
  DenseTable(const DenseConfig& config, std::size_t size);

  const DenseConfig& config() const { return config_; }
  std::size_t size() const { return values_.size(); }

  std::span<const float> values() const { return values_; }

  // Replaces the values (worker 0's, at the start). Keeps the state.
  void set_values(std::span<const float> values);

  // Applies a gradient of size() floats. Throws InvalidArgument before anything
  // is changed: wrong size, or a value that is no number.
  void push(std::span<const float> gradient);

  // For schedules: used from the next push on.
  void set_learning_rate(float rate);

  // Columns of state besides the values, each of size() floats, then steps.
  // For saves and exact resume.
  int num_columns() const { return static_cast<int>(columns_.size()); }
  std::span<const float> column(int index) const { return columns_[index]; }
  long long steps() const { return steps_; }
  void set_state(std::vector<std::vector<float>> columns, long long steps);

  void clear(); // zeros, as new

 private:
  DenseConfig config_;
  std::vector<float> values_;
  std::vector<std::vector<float>> columns_;
  long long steps_ = 0;
};

} // namespace argosy::ps
