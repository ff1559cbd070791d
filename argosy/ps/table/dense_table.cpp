#include "argosy/ps/table/dense_table.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/ps/table/rule_kernels.h"

namespace argosy::ps {

namespace {

constexpr std::string_view kDenseRuleNames[] = {
    "sgd", "adam", "adam_d2sum", "sum", "summary", "adagrad", "momentum"};

std::size_t columns_of(DenseRule rule) {
  constexpr std::size_t kColumns[] = {0, 2, 3, 0, 0, 1, 1};
  return kColumns[static_cast<int>(rule)];
}

DenseNumbers dense_numbers(const DenseConfig& config, long long steps) {
  DenseNumbers numbers{
      .rate = config.learning_rate,
      .beta1 = config.beta1,
      .beta2 = config.beta2,
      .epsilon = config.epsilon,
      .momentum = config.momentum,
      .moment_decay_rate = config.moment_decay_rate,
      .ada_decay_rate = config.ada_decay_rate,
      .ada_epsilon = config.ada_epsilon,
      .summary_decay_rate = config.summary_decay_rate};
  if (config.rule == DenseRule::Adam) {
    const auto t = static_cast<double>(steps);
    const double correction = std::sqrt(1 - std::pow(config.beta2, t));
    numbers.rate = static_cast<float>(
        config.learning_rate * correction / (1 - std::pow(config.beta1, t)));
    numbers.epsilon = static_cast<float>(config.epsilon * correction);
  }
  return numbers;
}

void check_length(
    const DenseConfig& config,
    const char* op,
    std::size_t size,
    std::size_t expected) {
  ARGOSY_CHECK(
      size == expected,
      "[ps.{}] dense table '{}': {} floats, expected {}",
      op,
      config.name,
      size,
      expected);
}

void check_dense_number(
    const DenseConfig& config, const char* field, float value, bool valid) {
  ARGOSY_CHECK(
      valid && std::isfinite(value),
      "[ps.config] dense table '{}': {} is {}, expected a finite number{}",
      config.name,
      field,
      value,
      valid ? "" : " in its range");
}

} // namespace

std::string_view to_string(DenseRule rule) {
  return kDenseRuleNames[static_cast<int>(rule)];
}

DenseRule dense_rule(std::string_view name) {
  const auto* const found =
      std::find(std::begin(kDenseRuleNames), std::end(kDenseRuleNames), name);
  ARGOSY_CHECK(
      found != std::end(kDenseRuleNames),
      "[ps.config] dense optimizer '{}', expected one of {}",
      name,
      join({std::begin(kDenseRuleNames), std::end(kDenseRuleNames)}, ", "));
  return static_cast<DenseRule>(found - std::begin(kDenseRuleNames));
}

void check(const DenseConfig& config) {
  const auto is_rate = [](float beta) { return beta >= 0 && beta < 1; };
  check_dense_number(config, "learning_rate", config.learning_rate, true);
  check_dense_number(config, "beta1", config.beta1, is_rate(config.beta1));
  check_dense_number(config, "beta2", config.beta2, is_rate(config.beta2));
  check_dense_number(config, "epsilon", config.epsilon, config.epsilon >= 0);
  check_dense_number(config, "momentum", config.momentum, true);
  check_dense_number(
      config, "moment_decay_rate", config.moment_decay_rate, true);
  check_dense_number(config, "ada_decay_rate", config.ada_decay_rate, true);
  check_dense_number(
      config, "ada_epsilon", config.ada_epsilon, config.ada_epsilon >= 0);
  check_dense_number(
      config, "summary_decay_rate", config.summary_decay_rate, true);
}

DenseTable::DenseTable(const DenseConfig& config, std::size_t size)
    : config_(config),
      values_(size),
      columns_(columns_of(config.rule), std::vector<float>(size)) {
  check(config);
}

void DenseTable::set_values(std::span<const float> values) {
  check_length(config_, "set_dense", values.size(), size());
  std::copy(values.begin(), values.end(), values_.begin());
}

void DenseTable::push(std::span<const float> gradient) {
  check_length(config_, "push_dense", gradient.size(), size());
  const RuleKernels& kernels = rule_kernels(simd::current_isa());
  if (config_.refuse_non_finite &&
      !kernels.all_finite(gradient.data(), gradient.size())) {
    const auto bad =
        std::find_if_not(gradient.begin(), gradient.end(), [](float v) {
          return std::isfinite(v);
        });
    throw InvalidArgument(
        str("[ps.push_dense] dense table '",
            config_.name,
            "': element ",
            bad - gradient.begin(),
            " is ",
            *bad,
            ", expected a finite number (refuse_non_finite)"));
  }
  ++steps_;
  float* columns[3] = {};
  std::transform(columns_.begin(), columns_.end(), columns, [](auto& column) {
    return column.data();
  });
  kernels.update_dense[static_cast<int>(config_.rule)](
      dense_numbers(config_, steps_),
      {values_.data(), columns, gradient.data(), size()});
}

void DenseTable::set_learning_rate(float rate) {
  check_dense_number(config_, "learning_rate", rate, true);
  config_.learning_rate = rate;
}

void DenseTable::set_state(
    std::vector<std::vector<float>> columns, long long steps) {
  ARGOSY_CHECK(
      columns.size() == columns_.size() && steps >= 0,
      "[ps.set_dense] dense table '{}' ({}): {} columns of state and {} steps, "
      "expected {} columns",
      config_.name,
      to_string(config_.rule),
      columns.size(),
      steps,
      columns_.size());
  for (const auto& column : columns) {
    check_length(config_, "set_dense", column.size(), size());
  }
  columns_ = std::move(columns);
  steps_ = steps;
}

void DenseTable::clear() {
  std::fill(values_.begin(), values_.end(), 0.0f);
  for (auto& column : columns_) {
    std::fill(column.begin(), column.end(), 0.0f);
  }
  steps_ = 0;
}

} // namespace argosy::ps
