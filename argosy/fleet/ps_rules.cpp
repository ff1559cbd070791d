#include "argosy/fleet/ps_rules.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include "argosy/common/error.h"
#include "argosy/fleet/strategy_sections.h"

namespace argosy::fleet {

namespace {

using torch::optim::AdagradOptions;
using torch::optim::AdamOptions;
using torch::optim::OptimizerOptions;
using torch::optim::SGDOptions;

void check_unset(bool unset, const char* what) {
  ARGOSY_CHECK(
      unset,
      "[fleet.distributed_optimizer] {} of the optimizer, which servers do not "
      "have",
      what);
}

[[noreturn]] void refuse() {
  throw InvalidArgument(
      "[fleet.distributed_optimizer] an optimizer that servers do not have, "
      "expected SGD, Adagrad or Adam");
}

void check_options(const SGDOptions& options) {
  check_unset(options.weight_decay() == 0, "weight_decay");
  check_unset(!options.nesterov(), "nesterov");
  check_unset(options.dampening() == 0, "dampening");
}

void check_options(const AdamOptions& options) {
  check_unset(options.weight_decay() == 0, "weight_decay");
  check_unset(!options.amsgrad(), "amsgrad");
}

void check_options(const AdagradOptions& options) {
  check_unset(options.weight_decay() == 0, "weight_decay");
  check_unset(options.lr_decay() == 0, "lr_decay");
  check_unset(
      options.initial_accumulator_value() == 0, "initial_accumulator_value");
}

ps::Rule rule_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(ps::Rule::Sum); ++i) {
    if (to_string(static_cast<ps::Rule>(i)) == name) {
      return static_cast<ps::Rule>(i);
    }
  }
  throw InvalidArgument(
      str_format("[fleet.strategy] ps_configs.sparse_optimizer is {}", name));
}

template <typename Config>
void take_betas(Config& config, const AdamOptions& adam) {
  config.beta1 = static_cast<float>(std::get<0>(adam.betas()));
  config.beta2 = static_cast<float>(std::get<1>(adam.betas()));
  config.epsilon = static_cast<float>(adam.eps());
}

void take_options(ps::RuleConfig& config, const OptimizerOptions& options) {
  if (const auto* sgd = dynamic_cast<const SGDOptions*>(&options)) {
    check_options(*sgd);
    check_unset(sgd->momentum() == 0, "momentum of rows of embeddings");
    config.rule = ps::Rule::Naive;
  } else if (const auto* adam = dynamic_cast<const AdamOptions*>(&options)) {
    check_options(*adam);
    config.rule = ps::Rule::Adam;
    take_betas(config, *adam);
  } else if (
      const auto* adagrad = dynamic_cast<const AdagradOptions*>(&options)) {
    check_options(*adagrad);
    config.rule = ps::Rule::AdaGradV2;
    config.epsilon = static_cast<float>(adagrad->eps());
  } else {
    refuse();
  }
}

} // namespace

ps::RuleConfig row_rule_of(
    const OptimizerOptions* options, const PsConfigs& configs) {
  ps::RuleConfig config;
  config.initial_range = static_cast<float>(configs.initial_range);
  const std::string& name = configs.sparse_optimizer;
  if (name != "same") {
    config.rule = rule_named(name);
  } else if (options != nullptr) {
    take_options(config, *options);
  }
  if (options != nullptr) {
    config.learning_rate = static_cast<float>(options->get_lr());
  }
  return config;
}

ps::DenseConfig dense_rule_of(const OptimizerOptions* options) {
  ps::DenseConfig config;
  if (options == nullptr) {
    return config;
  }
  config.learning_rate = static_cast<float>(options->get_lr());
  if (const auto* sgd = dynamic_cast<const SGDOptions*>(options)) {
    check_options(*sgd);
    config.rule =
        sgd->momentum() > 0 ? ps::DenseRule::Momentum : ps::DenseRule::Sgd;
    config.momentum = static_cast<float>(sgd->momentum());
  } else if (const auto* adam = dynamic_cast<const AdamOptions*>(options)) {
    check_options(*adam);
    config.rule = ps::DenseRule::Adam;
    take_betas(config, *adam);
  } else if (
      const auto* adagrad = dynamic_cast<const AdagradOptions*>(options)) {
    check_options(*adagrad);
    config.rule = ps::DenseRule::AdaGrad;
    config.epsilon = static_cast<float>(adagrad->eps());
  } else {
    refuse();
  }
  return config;
}

} // namespace argosy::fleet
