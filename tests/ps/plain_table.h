#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "argosy/ps/table/config.h"

// A sparse table as one would write it down first: a map of structs, doubles,
// no tricks. What the real one is compared with.
namespace argosy::ps::testing {

struct PlainWeights {
  std::vector<double> w;
  std::vector<double> m;
  std::vector<double> v; // or sums of squares
  double power1 = 0;
  double power2 = 0;
};

inline void plain_update(
    const RuleConfig& rule,
    PlainWeights& weights,
    std::span<const float> gradient,
    double scale) {
  const std::size_t dim = weights.w.size();
  std::vector<double> g(gradient.begin(), gradient.end());
  for (double& value : g) {
    const bool scaled = rule.rule == Rule::AdaGrad ||
        rule.rule == Rule::StdAdaGrad || rule.rule == Rule::AdaGradV2;
    value /= scaled ? scale : 1;
  }
  double mean_square = 0;
  double mean = 0;
  for (const double value : g) {
    mean_square += value * value / static_cast<double>(dim);
    mean += value / static_cast<double>(dim);
  }
  const double g0 = rule.initial_g2sum;
  const double rate = rule.learning_rate;
  const double adam_rate =
      rate * std::sqrt(1 - weights.power2) / (1 - weights.power1);
  const double b1 = rule.beta1;
  const double b2 = rule.beta2;
  if (rule.rule == Rule::AdaGradV2) {
    weights.v[0] += mean_square;
  }
  for (std::size_t i = 0; i < dim; ++i) {
    double& w = weights.w[i];
    switch (rule.rule) {
      case Rule::Naive:
        w -= rate * g[i];
        break;
      case Rule::Sum:
        w += g[i];
        break;
      case Rule::AdaGrad:
        w -= rate * g[i] * std::sqrt(g0 / (g0 + weights.v[0]));
        break;
      case Rule::StdAdaGrad:
        w -= rate * g[i] * std::sqrt(g0 / (g0 + weights.v[i]));
        weights.v[i] += g[i] * g[i];
        break;
      case Rule::AdaGradV2:
        w -= rate * g[i] / (std::sqrt(weights.v[0]) + rule.epsilon);
        break;
      case Rule::Adam:
        weights.m[i] = b1 * weights.m[i] + (1 - b1) * g[i];
        weights.v[i] = b2 * weights.v[i] + (1 - b2) * g[i] * g[i];
        w -=
            adam_rate * weights.m[i] / (std::sqrt(weights.v[i]) + rule.epsilon);
        break;
      case Rule::SharedAdam: {
        const double m = b1 * weights.m[0] + (1 - b1) * g[i];
        const double v = b2 * weights.v[0] + (1 - b2) * g[i] * g[i];
        w -= adam_rate * m / (std::sqrt(v) + rule.epsilon);
        break;
      }
    }
    w = std::min<double>(std::max<double>(w, rule.min_weight), rule.max_weight);
  }
  if (rule.rule == Rule::AdaGrad) {
    weights.v[0] += mean_square;
  }
  if (rule.rule == Rule::SharedAdam) {
    weights.m[0] = b1 * weights.m[0] + (1 - b1) * mean;
    weights.v[0] = b2 * weights.v[0] + (1 - b2) * mean_square;
  }
  weights.power1 *= b1;
  weights.power2 *= b2;
}

inline PlainWeights plain_weights(
    const RuleConfig& rule, std::span<const float> initial) {
  PlainWeights weights;
  weights.w.assign(initial.begin(), initial.end());
  weights.m.resize(initial.size());
  weights.v.resize(initial.size());
  weights.power1 = rule.beta1;
  weights.power2 = rule.beta2;
  return weights;
}

class PlainTable {
 public:
  explicit PlainTable(SparseConfig config) : config_(std::move(config)) {}

  struct Row {
    double slot = -1;
    double unseen = 0;
    double delta = 0;
    double show = 0;
    double click = 0;
    PlainWeights embed;
    std::optional<PlainWeights> embedx;
  };

  // `embedx` are the initial weights that the real table chose: what is random
  // is compared elsewhere.
  void push(
      std::uint64_t key,
      std::span<const float> record,
      std::span<const float> embedx) {
    Row& row = rows_[key];
    if (row.embed.w.empty()) {
      const float zero = 0;
      row.embed = plain_weights(config_.embed_rule, {&zero, 1});
    }
    row.slot = record[0];
    row.show += record[1];
    row.click += record[2];
    row.delta += score(record[1], record[2]);
    row.unseen = 0;
    const bool scaled = config_.ctr.show_scale && record[1] > 0;
    const double scale = scaled ? record[1] : 1;
    plain_update(config_.embed_rule, row.embed, record.subspan(3, 1), scale);
    if (row.embedx) {
      plain_update(config_.embedx_rule, *row.embedx, record.subspan(4), scale);
    } else if (score(row.show, row.click) >= config_.embedx_threshold) {
      row.embedx = plain_weights(config_.embedx_rule, embedx);
    }
  }

  std::vector<double> pull(std::uint64_t key) const {
    const auto dim = static_cast<std::size_t>(config_.embedx_dim);
    std::vector<double> values(3 + dim);
    if (const auto found = rows_.find(key); found != rows_.end()) {
      const Row& row = found->second;
      values = {row.show, row.click, row.embed.w[0]};
      values.resize(3 + dim);
      if (row.embedx) {
        std::copy(
            row.embedx->w.begin(), row.embedx->w.end(), values.begin() + 3);
      }
    }
    if (config_.accessor == Accessor::Sparse) {
      values.erase(values.begin(), values.begin() + 2);
    }
    return values;
  }

  void shrink() {
    for (auto at = rows_.begin(); at != rows_.end();) {
      Row& row = at->second;
      row.show *= config_.ctr.show_click_decay_rate;
      row.click *= config_.ctr.show_click_decay_rate;
      const bool gone =
          score(row.show, row.click) < config_.ctr.delete_threshold ||
          row.unseen > config_.ctr.delete_after_unseen_days;
      at = gone ? rows_.erase(at) : std::next(at);
    }
  }

  void end_day() {
    for (auto& [key, row] : rows_) {
      row.unseen += 1;
    }
  }

  std::vector<std::uint64_t> saved(double delta_threshold) {
    std::vector<std::uint64_t> keys;
    for (auto& [key, row] : rows_) {
      if (score(row.show, row.click) >= config_.ctr.base_threshold &&
          row.delta >= delta_threshold &&
          row.unseen <= config_.ctr.delta_keep_days) {
        keys.push_back(key);
        row.delta = 0;
      }
    }
    return keys;
  }

  const std::map<std::uint64_t, Row>& rows() const { return rows_; }

 private:
  double score(double show, double click) const {
    return (show - click) * config_.ctr.nonclk_coeff +
        click * config_.ctr.click_coeff;
  }

  SparseConfig config_;
  std::map<std::uint64_t, Row> rows_;
};

} // namespace argosy::ps::testing
