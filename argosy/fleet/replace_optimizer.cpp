#include "argosy/fleet/replace_optimizer.h"

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <utility>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/fleet/averaged_states.h"
#include "argosy/fleet/strategy.h"
#include "argosy/optim/lamb.h"
#include "argosy/optim/lars.h"
#include "argosy/optim/parameter_groups.h"
#include "argosy/optim/sgd.h"

namespace argosy::fleet {

namespace {

using torch::optim::AdamOptions;
using torch::optim::AdamWOptions;
using torch::optim::Optimizer;
using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamGroup;
using torch::optim::SGDOptions;
using Groups = std::vector<OptimizerParamGroup>;

// LibTorch's optimizers have no name; the type of their options tells them
// apart.
std::string kind_of(const OptimizerOptions& options) {
  if (const auto* sgd = dynamic_cast<const SGDOptions*>(&options)) {
    return sgd->momentum() > 0 ? "SGD with momentum" : "SGD without momentum";
  }
  if (dynamic_cast<const AdamOptions*>(&options) != nullptr) {
    return "Adam";
  }
  if (dynamic_cast<const AdamWOptions*>(&options) != nullptr) {
    return "AdamW";
  }
  if (dynamic_cast<const optim::LarsOptions*>(&options) != nullptr) {
    return "LARS";
  }
  if (dynamic_cast<const optim::LambOptions*>(&options) != nullptr) {
    return "LAMB";
  }
  return "another";
}

[[noreturn]] void refuse_kind(
    const char* what, const char* takes, const OptimizerOptions& options) {
  throw InvalidArgument(str_format(
      "[fleet.distributed_optimizer] {} takes {}; the optimizer is {}",
      what,
      takes,
      kind_of(options)));
}

void check_unset(bool unset, const char* what, const char* option) {
  ARGOSY_CHECK(
      unset,
      "[fleet.distributed_optimizer] {} does not support {}, which the "
      "optimizer uses",
      what,
      option);
}

const SGDOptions& momentum_of(
    const OptimizerOptions& options, const char* what) {
  const auto* sgd = dynamic_cast<const SGDOptions*>(&options);
  if (sgd == nullptr || sgd->momentum() <= 0) {
    refuse_kind(what, "SGD with momentum", options);
  }
  check_unset(!sgd->nesterov(), what, "nesterov");
  check_unset(sgd->dampening() == 0, what, "dampening");
  return *sgd;
}

// Without this check the optimizer's own weight decay would be dropped.
void check_decay(double own, double configured, const char* setting) {
  ARGOSY_CHECK(
      own == 0 || own == configured,
      "[fleet.distributed_optimizer] the optimizer has weight_decay {}, but {} "
      "is {}: expected 0 or the same",
      own,
      setting,
      configured);
}

optim::LarsOptions lars_of(
    const OptimizerOptions& options, const LarsConfigs& configs) {
  const SGDOptions& sgd = momentum_of(options, "lars");
  check_decay(
      sgd.weight_decay(),
      configs.lars_weight_decay,
      "lars_configs.lars_weight_decay");
  return optim::LarsOptions(sgd.lr())
      .momentum(sgd.momentum())
      .lars_coeff(configs.lars_coeff)
      .weight_decay(configs.lars_weight_decay)
      .epsilon(configs.epsilon);
}

template <typename Adam>
optim::LambOptions lamb_from(const Adam& adam, const LambConfigs& configs) {
  check_unset(!adam.amsgrad(), "lamb", "amsgrad");
  check_decay(
      adam.weight_decay(),
      configs.lamb_weight_decay,
      "lamb_configs.lamb_weight_decay");
  return optim::LambOptions(adam.lr())
      .betas(adam.betas())
      .eps(adam.eps())
      .weight_decay(configs.lamb_weight_decay);
}

optim::LambOptions lamb_of(
    const OptimizerOptions& options, const LambConfigs& configs) {
  if (const auto* adam = dynamic_cast<const AdamOptions*>(&options)) {
    return lamb_from(*adam, configs);
  }
  if (const auto* adamw = dynamic_cast<const AdamWOptions*>(&options)) {
    return lamb_from(*adamw, configs);
  }
  refuse_kind("lamb", "Adam or AdamW", options);
}

std::string required_name(const at::Tensor& parameter, const NameOf& name_of) {
  std::string name = name_of(parameter);
  ARGOSY_CHECK(
      !name.empty(),
      "[fleet.distributed_optimizer] exclude_from_weight_decay selects by "
      "name, "
      "and a parameter has no name: call distributed_model() first");
  return name;
}

// Splits a group in two: parameters with weight decay, and those whose names
// are excluded from it.
template <typename Options>
void split_group(
    const OptimizerParamGroup& group,
    const Options& options,
    const std::vector<std::string>& excluded,
    const NameOf& name_of,
    Groups& groups) {
  if (excluded.empty()) {
    groups.emplace_back(group.params(), std::make_unique<Options>(options));
    return;
  }
  optim::NamedParameters named;
  for (const at::Tensor& parameter : group.params()) {
    named.insert(required_name(parameter, name_of), parameter);
  }
  Options without = options;
  without.weight_decay(0);
  const auto split = optim::split_groups(
      named, optim::name_contains(excluded), options, without);
  for (const OptimizerParamGroup& part : split.groups) {
    groups.push_back(part);
  }
}

// Builds a `New` whose groups' options are `of(options of the user's group)`.
template <typename New, typename Of>
std::unique_ptr<Optimizer> replaced(
    Optimizer& optimizer,
    const std::vector<std::string>& excluded,
    const NameOf& name_of,
    const Of& of) {
  // Group by group, so that each keeps its own learning rate.
  Groups groups;
  for (const OptimizerParamGroup& group : optimizer.param_groups()) {
    const auto options =
        of(group.has_options() ? group.options() : optimizer.defaults());
    split_group(group, options, excluded, name_of, groups);
  }
  return std::make_unique<New>(std::move(groups), of(optimizer.defaults()));
}

// dgc returns gradients that already include momentum and weight decay, so
// plain SGD steps.
OptimizerReplacement replace_for_dgc(
    Optimizer& optimizer, const NameOf& name_of) {
  const double momentum =
      momentum_of(optimizer.param_groups().front().options(), "dgc").momentum();
  const auto of = [&](const OptimizerOptions& options) {
    const SGDOptions& sgd = momentum_of(options, "dgc");
    ARGOSY_CHECK(
        sgd.momentum() == momentum,
        "[fleet.distributed_optimizer] dgc needs one momentum; the optimizer's "
        "groups have {} and {}",
        momentum,
        sgd.momentum());
    return SGDOptions(sgd.lr());
  };
  OptimizerReplacement result{
      replaced<optim::SGD>(optimizer, {}, name_of, of), momentum, {}};
  for (const OptimizerParamGroup& group : optimizer.param_groups()) {
    const double decay = momentum_of(group.options(), "dgc").weight_decay();
    for (const at::Tensor& parameter : group.params()) {
      result.dgc_decays[parameter.unsafeGetTensorImpl()] = decay;
    }
  }
  return result;
}

void check_local(const Optimizer& optimizer, const char* what) {
  ARGOSY_CHECK(
      has_known_states(optimizer),
      "[fleet.distributed_optimizer] {} averages the moments of the optimizer, "
      "and those of this one are not known, expected SGD, Adam, AdamW, "
      "Adagrad, RMSprop or an optimizer of argosy::optim",
      what);
}

} // namespace

OptimizerReplacement replace_optimizer(
    Optimizer& optimizer,
    const DistributedStrategy& strategy,
    const NameOf& name_of,
    int num_ranks) {
  if (strategy.localsgd || strategy.adaptive_localsgd) {
    check_local(
        optimizer, strategy.localsgd ? "localsgd" : "adaptive_localsgd");
  }
  if (strategy.lars) {
    const auto& configs = strategy.lars_configs;
    const auto of = [&](const auto& options) {
      return lars_of(options, configs);
    };
    const auto& excluded = configs.exclude_from_weight_decay.get();
    return {replaced<optim::Lars>(optimizer, excluded, name_of, of), {}, {}};
  }
  if (strategy.lamb) {
    const auto& configs = strategy.lamb_configs;
    const auto of = [&](const auto& options) {
      return lamb_of(options, configs);
    };
    const auto& excluded = configs.exclude_from_weight_decay.get();
    return {replaced<optim::Lamb>(optimizer, excluded, name_of, of), {}, {}};
  }
  if (strategy.dgc) {
    // Made even for one rank, to refuse an unsuitable optimizer there too.
    OptimizerReplacement sgd = replace_for_dgc(optimizer, name_of);
    // A single rank compresses nothing: the user's optimizer keeps its
    // momentum.
    return num_ranks > 1 ? std::move(sgd) : OptimizerReplacement{};
  }
  return {};
}

} // namespace argosy::fleet
