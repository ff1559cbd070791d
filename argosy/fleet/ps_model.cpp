#include "argosy/fleet/ps_model.h"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <map>
#include <set>

#include "argosy/common/error.h"
#include "argosy/common/pattern.h"
#include "argosy/common/text.h"
#include "argosy/fleet/ps.h"
#include "argosy/fleet/ps_rules.h"
#include "argosy/fleet/ps_strategy.h"
#include "argosy/fleet/strategy.h"
#include "argosy/torch_hooks/tensor_tag.h"
#include "argosy/training/parameter_marks.h"

namespace argosy::fleet {

namespace {

using torch::optim::Optimizer;

// Attached to parameters that set_param_ps() names.
struct ParamPs {};

using Chosen = std::function<bool(const std::string&, const at::Tensor&)>;

bool is_marked(const at::Tensor& parameter) {
  return torch_hooks::find_tag<ParamPs>(parameter) != nullptr;
}

// Which parameters are on servers. Throws for patterns that match none.
Chosen chosen_by(
    const torch::OrderedDict<std::string, at::Tensor>& parameters,
    const PsConfigs& configs) {
  const bool has_marks = std::ranges::any_of(
      parameters, [](const auto& item) { return is_marked(item.value()); });
  if (has_marks) {
    return [](const std::string&, const at::Tensor& parameter) {
      return is_marked(parameter);
    };
  }
  if (configs.parameters.get().empty()) {
    return [](const std::string&, const at::Tensor&) { return true; };
  }
  std::vector<Pattern> patterns;
  for (const std::string& text : configs.parameters.get()) {
    const Pattern& pattern =
        patterns.emplace_back(text, "[fleet.strategy] ps_configs.parameters");
    ARGOSY_CHECK(
        std::ranges::any_of(
            parameters,
            [&](const auto& item) { return pattern.matches(item.key()); }),
        "[fleet.strategy] ps_configs.parameters: no parameter of the model is "
        "named \"{}\"",
        text);
  }
  return [patterns](const std::string& name, const at::Tensor&) {
    return std::ranges::any_of(
        patterns, [&](const Pattern& each) { return each.matches(name); });
  };
}

// The group of the optimizer that has the parameter.
std::size_t group_of(
    Optimizer& optimizer, const std::string& name, const at::Tensor& wanted) {
  const auto& groups = optimizer.param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (const at::Tensor& each : groups[i].params()) {
      if (each.is_same(wanted)) {
        return i;
      }
    }
  }
  throw InvalidArgument(str_format(
      "[fleet.distributed_optimizer] servers hold {}, which the optimizer does "
      "not have: give it to the optimizer, or set requires_grad_(false) before "
      "distributed_model()",
      name));
}

void remove_from(Optimizer& optimizer, const at::Tensor& parameter) {
  for (auto& group : optimizer.param_groups()) {
    std::erase_if(group.params(), [&](const at::Tensor& each) {
      return each.is_same(parameter);
    });
  }
}

void mark_on_servers(const at::Tensor& parameter) {
  ParameterMarks marks = marks_of(parameter);
  marks.on_servers = true;
  set_marks(parameter, marks);
}

} // namespace

void set_param_ps(const at::Tensor& parameter) {
  torch_hooks::set_tag(parameter, ParamPs{});
}

void set_param_ps(torch::nn::Module& module) {
  for (const at::Tensor& parameter : module.parameters()) {
    set_param_ps(parameter);
  }
}

PsPlacement ps_placement(
    torch::nn::Module& module, const DistributedStrategy& strategy) {
  const auto parameters = module.named_parameters(true);
  const Chosen chosen = chosen_by(parameters, strategy.ps_configs);
  const auto embeddings = ps::embedding_weights(module);
  PsPlacement placement;
  bool trains = false;
  std::set<const void*> seen; // weights that modules share are one
  for (const auto& item : parameters) {
    const at::Tensor& parameter = item.value();
    if (!parameter.defined() ||
        !seen.insert(parameter.unsafeGetTensorImpl()).second) {
      continue;
    }
    const bool on_servers =
        parameter.requires_grad() && chosen(item.key(), parameter);
    const bool is_embedding =
        std::ranges::find(embeddings, item.key()) != embeddings.end();
    auto& list = !on_servers ? placement.workers
        : is_embedding       ? placement.tables
                             : placement.dense;
    list.push_back(item.key());
    trains |= parameter.requires_grad() && !on_servers;
  }
  const auto excluded = settings_without_servers(strategy, trains);
  ARGOSY_CHECK(
      excluded.empty(),
      "[fleet.distributed_model] {}: not with parameters on servers",
      join(excluded, ", "));
  return placement;
}

PsModel::PsModel(
    torch::nn::Module& module,
    const DistributedStrategy& strategy,
    std::shared_ptr<ps::Session> session)
    : strategy_(std::make_shared<DistributedStrategy>(strategy)),
      session_(std::move(session)),
      placement_(ps_placement(module, strategy)) {
  for (const auto& item : module.named_parameters(true)) {
    if (std::ranges::find(placement_.dense, item.key()) !=
        placement_.dense.end()) {
      dense_.push_back({item.key(), item.value()});
      // Workers without parameters of their own reduce nothing anyway.
      if (!placement_.workers.empty()) {
        mark_on_servers(item.value());
      }
    }
  }
  if (!placement_.tables.empty()) {
    tables_.emplace(
        module,
        session_,
        [&](const std::string& name) {
          return std::ranges::find(placement_.tables, name) !=
              placement_.tables.end();
        },
        strategy.ps_configs.init_in_server);
  }
}

std::shared_ptr<PsModel> PsModel::make(
    torch::nn::Module& module,
    const DistributedStrategy& strategy,
    std::shared_ptr<ps::Session> session) {
  std::shared_ptr<PsModel> model(
      new PsModel(module, strategy, std::move(session)));
  if (model->tables_) {
    model->tables_->set_maker([weak = std::weak_ptr(model)] {
      if (const auto self = weak.lock()) {
        self->start();
      }
    });
  }
  return model;
}

bool PsModel::is_geo() const {
  return session_->communicator().options().mode == ps::Mode::Geo;
}

void PsModel::make_tables(Optimizer* optimizer) {
  if (!tables_) {
    return;
  }
  const PsConfigs& configs = strategy_->ps_configs;
  tables_->make([&](const ps::TableParameters::Table& table) {
    const auto* options = optimizer == nullptr
        ? nullptr
        : &optimizer
               ->param_groups()[group_of(*optimizer, table.name, table.weight)]
               .options();
    return ps::TableParameterOptions{
        .rule = row_rule_of(options, configs),
        .shard_num = configs.shard_num,
        .cache = {
            .rows = static_cast<std::size_t>(configs.cache_rows.get()),
            .steps = configs.cache_steps}};
  });
  for (const auto& table : tables_->tables()) {
    if (optimizer != nullptr) {
      const std::size_t group = group_of(*optimizer, table.name, table.weight);
      rates_.push_back(
          {table.id,
           group,
           optimizer->param_groups()[group].options().get_lr()});
      remove_from(*optimizer, table.weight);
    }
  }
}

void PsModel::add_dense(Optimizer* optimizer) {
  if (dense_.empty()) {
    return;
  }
  // A table for each group of the optimizer.
  std::map<std::size_t, std::vector<at::Tensor>> groups;
  for (const Dense& each : dense_) {
    const std::size_t group = optimizer == nullptr
        ? 0
        : group_of(*optimizer, each.name, each.parameter);
    groups[group].push_back(each.parameter);
  }
  for (const auto& [group, parameters] : groups) {
    const auto* options = optimizer == nullptr
        ? nullptr
        : &optimizer->param_groups()[group].options();
    const std::uint32_t table = session_->add_dense(
        parameters, is_geo() ? ps::DenseConfig{} : dense_rule_of(options));
    if (options != nullptr) {
      rates_.push_back({table, group, options->get_lr()});
    }
  }
  if (optimizer != nullptr && !is_geo()) {
    for (const Dense& each : dense_) {
      remove_from(*optimizer, each.parameter);
    }
  }
}

void PsModel::start(Optimizer& optimizer) {
  ARGOSY_CHECK(
      !has_optimizer_ && !(tables_ && tables_->is_made()),
      "[fleet.distributed_optimizer] what servers hold of the model was made "
      "before: make one optimizer of all its parameters, before the first "
      "forward()");
  has_optimizer_ = true;
  make_tables(&optimizer);
  add_dense(&optimizer);
}

void PsModel::start() {
  if (has_optimizer_ || (tables_ && tables_->is_made())) {
    return;
  }
  has_optimizer_ = true; // too late for another
  make_tables(nullptr);
  add_dense(nullptr);
}

// Schedulers change the optimizer.
void PsModel::update_rates(Optimizer& optimizer) {
  const auto now = [&](Rate& rate) {
    const double next = optimizer.param_groups()[rate.group].options().get_lr();
    const bool changed = next != rate.rate;
    rate.rate = next;
    return changed;
  };
  for (Rate& rate : rates_) {
    if (now(rate)) {
      session_->set_learning_rate(rate.table, static_cast<float>(rate.rate));
    }
  }
}

void PsModel::step(Optimizer& optimizer) {
  update_rates(optimizer);
  optimizer.step(); // what it still has: the workers' own, and geo's dense
  session_->step();
  if (is_geo()) {
    for (const Dense& each : dense_) {
      each.parameter.mutable_grad() = at::Tensor();
    }
  }
}

} // namespace argosy::fleet
