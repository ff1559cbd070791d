#include "argosy/sharding/sharded_optimizer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/module.h>

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "argosy/comm/objects.h"
#include "argosy/comm/operation/label.h"
#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/offload/states.h"
#include "argosy/optim/flat_parameters.h"
#include "argosy/optim/grad_scaler.h"
#include "argosy/optim/gradients.h"
#include "argosy/optim/parameter_groups.h"
#include "argosy/sharding/piece_sums.h"

namespace argosy::sharding {

namespace {

using optim::FusedOptimizer;
using optim::StateDict;
using torch::optim::Optimizer;

using Pieces = std::map<const void*, at::Tensor>; // by parameter

Pieces pieces_by_parameter(const ShardedCore& core) {
  Pieces pieces;
  for (const OwnPiece& piece : core.pieces()) {
    pieces.emplace(piece.param.unsafeGetTensorImpl(), piece.tensor);
  }
  return pieces;
}

std::map<const void*, std::string> names_by_parameter(const ShardedCore& core) {
  std::map<const void*, std::string> names;
  for (const auto& item : core.module().named_parameters(true)) {
    names.emplace(item.value().unsafeGetTensorImpl(), item.key());
  }
  return names;
}

// This rank's pieces of the parameters of a group.
std::vector<at::Tensor> parts_of(
    const std::vector<at::Tensor>& params,
    const Pieces& pieces,
    const std::map<const void*, std::string>& names) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& param : params) {
    ARGOSY_CHECK(
        names.count(param.unsafeGetTensorImpl()) > 0,
        "[sharding] the optimizer has a parameter of shape {} that the model "
        "does not have",
        param.sizes());
    const auto found = pieces.find(param.unsafeGetTensorImpl());
    if (found != pieces.end()) {
      parts.push_back(found->second);
    }
  }
  return parts;
}

std::vector<std::string> names_of(
    const std::vector<at::Tensor>& params,
    const std::map<const void*, std::string>& names) {
  std::vector<std::string> result;
  for (const at::Tensor& param : params) {
    const auto found = names.find(param.unsafeGetTensorImpl());
    result.push_back(found != names.end() ? found->second : "");
  }
  return result;
}

// Splits the name of a state, "<parameter>.<kind>".
std::pair<std::string, std::string> split_name(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return {name.substr(0, dot), name.substr(dot + 1)};
}

// Cuts this rank's pieces out of whole states.
StateDict cut_states(const StateDict& states, const ShardedCore& core) {
  std::map<std::string, Piece> places;
  for (const OwnPiece& piece : core.pieces()) {
    places.emplace(piece.name, piece.place);
  }
  std::set<std::string> known;
  for (const ParameterInfo& info : core.parameters()) {
    known.insert(info.name);
  }
  StateDict cut;
  for (const auto& [name, state] : states) {
    const std::string parameter = split_name(name).first;
    ARGOSY_CHECK(
        known.count(parameter) > 0,
        "[sharding.load_state_dict] \"{}\" does not belong to a parameter of "
        "the model",
        name);
    const auto place = places.find(parameter);
    if (place == places.end()) {
      continue;
    }
    cut[name] = state.dim() == 0
        ? state
        : optim::alias(
              state.contiguous(),
              place->second.from,
              at::empty({place->second.count}, state.options()));
  }
  return cut;
}

// Describes a state that some rank has.
struct StateText {
  std::string name;
  c10::ScalarType type = c10::ScalarType::Float;
  std::int64_t step = -1; // of a scalar, its value
};

std::string encode(const std::string& name, const at::Tensor& state) {
  return str_format(
      "{} {} {}",
      name,
      static_cast<int>(state.scalar_type()),
      state.dim() == 0 ? state.item<std::int64_t>() : -1);
}

StateText decode(const std::string& text) {
  const std::size_t last = text.rfind(' ');
  const std::size_t first = text.rfind(' ', last - 1);
  return {
      text.substr(0, first),
      static_cast<c10::ScalarType>(std::stoi(text.substr(first + 1))),
      std::stoll(text.substr(last + 1))};
}

// The states that any rank has, in an order that all ranks share: a rank
// without a piece of a parameter does not have its state.
std::map<std::string, StateText> all_states(
    const StateDict& own, const GroupPtr& group) {
  std::vector<std::string> texts;
  for (const auto& [name, state] : own) {
    texts.push_back(encode(name, state));
  }
  std::vector<std::vector<std::string>> everybodys;
  all_gather_object(everybodys, texts, group);
  std::map<std::string, StateText> all;
  for (const auto& ranks : everybodys) {
    for (const std::string& text : ranks) {
      StateText state = decode(text);
      all.emplace(state.name, state);
    }
  }
  return all;
}

// Gathers one kind of state of all parameters of a bucket.
class StateGather {
 public:
  StateGather(const ShardedCore& core, const Bucket& bucket)
      : core_(core), bucket_(bucket) {}

  void run(
      const std::string& kind,
      const StateDict& own,
      const std::map<std::string, StateText>& all,
      StateDict& whole) const {
    std::optional<c10::ScalarType> type;
    for (const BucketEntry& entry : bucket_.entries) {
      const auto found = all.find(name_of(entry) + '.' + kind);
      if (found != all.end()) {
        type = found->second.type;
      }
    }
    if (!type) {
      return;
    }
    const at::Tensor full = gathered(kind, own, *type);
    for (const BucketEntry& entry : bucket_.entries) {
      const std::string name = name_of(entry) + '.' + kind;
      if (all.count(name) > 0) {
        whole[name] = optim::alias(full, entry.begin, param_of(entry)).clone();
      }
    }
  }

 private:
  const std::string& name_of(const BucketEntry& entry) const {
    return core_.parameters()[entry.parameter].name;
  }

  at::Tensor param_of(const BucketEntry& entry) const {
    return core_.module().named_parameters(true)[name_of(entry)];
  }

  at::Tensor gathered(
      const std::string& kind,
      const StateDict& own,
      c10::ScalarType type) const {
    const GroupPtr& group = core_.group();
    const at::Tensor part = at::zeros({bucket_.count / group->nranks()}, type);
    for (const Piece& piece :
         pieces_of(bucket_, group->rank(), group->nranks())) {
      const auto found =
          own.find(core_.parameters()[piece.parameter].name + '.' + kind);
      if (found != own.end()) {
        part.narrow(0, piece.in_part, piece.count).copy_(found->second);
      }
    }
    at::Tensor full = at::zeros({bucket_.count}, type);
    all_gather(full, part, group);
    return full;
  }

  const ShardedCore& core_;
  const Bucket& bucket_;
};

} // namespace

ShardedOptimizer::ShardedOptimizer(
    Optimizer& optimizer, std::shared_ptr<ShardedCore> core)
    : optimizer_(optimizer), core_(std::move(core)) {
  const auto names = names_by_parameter(*core_);
  StateDict states;
  if (!optimizer_.state().empty()) {
    states = fused("cutting its states")
                 .state_dict(names_of(optim::params_of(optimizer_), names));
  }
  // From here on the optimizer holds one-dimensional pieces; states of whole
  // parameters were named above, before their keys disappear.
  const Pieces pieces = pieces_by_parameter(*core_);
  for (auto& group : optimizer_.param_groups()) {
    group.params() = parts_of(group.params(), pieces, names);
  }
  optimizer_.state().clear();
  if (auto* fused = dynamic_cast<FusedOptimizer*>(&optimizer_)) {
    fused->set_part_sums(std::make_shared<PieceSums>(*core_));
  }
  if (!states.empty()) {
    load_state_dict(states);
  }
  if (core_->options().offload) {
    offload::offload_states(
        fused("offload"),
        *core_->options().offload,
        static_cast<std::int64_t>(core_->options().buffer_max_size));
  }
}

FusedOptimizer& ShardedOptimizer::fused(const char* what) {
  auto* fused = dynamic_cast<FusedOptimizer*>(&optimizer_);
  ARGOSY_CHECK(
      fused != nullptr,
      "[sharding] {} needs an optimizer of argosy::optim, which can name its "
      "states",
      what);
  return *fused;
}

// The names of the pieces, in the order of the groups.
std::vector<std::string> ShardedOptimizer::names() const {
  std::map<const void*, std::string> names;
  for (const OwnPiece& piece : core_->pieces()) {
    names.emplace(piece.tensor.unsafeGetTensorImpl(), piece.name);
  }
  return names_of(optim::params_of(optimizer_), names);
}

void ShardedOptimizer::step() {
  core_->before_step();
  fault_point("sharding.step");
  optimizer_.step();
  core_->after_step();
}

bool ShardedOptimizer::step(optim::GradScaler& scaler) {
  core_->before_step();
  // after_step() follows also when the scaler skips the step: it is collective,
  // and a rank alone must not leave it out.
  const bool stepped = scaler.step(optimizer_);
  core_->after_step();
  return stepped;
}

// Pieces are disjoint and cover all trained parameters, so the sum of the
// ranks' squares is the squared norm of the whole gradient. Replicas in
// dp_group have the same slices and must not be added.
double ShardedOptimizer::clip_grad_norm_(double max_norm) {
  const auto params = optim::params_of(optimizer_);
  at::Tensor squares =
      at::scalar_tensor(optim::squared_grad_norm(params), at::kDouble)
          .reshape({1});
  static const OpLabel label("gradient norm");
  const LabelScope scope(label);
  all_reduce(squares, ReduceOp::SUM, core_->group());
  const double norm = std::sqrt(squares.item<double>());
  const double factor = optim::clip_factor(norm, max_norm);
  if (factor != 1) {
    optim::scale_grads(params, factor);
  }
  return norm;
}

void ShardedOptimizer::clip_grad_value_(double clip_value) {
  optim::clip_grad_value_(optim::params_of(optimizer_), clip_value);
}

StateDict ShardedOptimizer::state_dict() {
  const StateDict own = fused("state_dict()").state_dict(names());
  const auto all = all_states(own, core_->group());
  // Sorted, so that all ranks gather the same kinds in the same order, also
  // those of which they have no piece.
  std::set<std::string> kinds;
  StateDict whole;
  for (const auto& [name, state] : all) {
    if (state.step >= 0) {
      whole[name] = at::scalar_tensor(state.step, at::kLong);
    } else {
      kinds.insert(split_name(name).second);
    }
  }
  for (const UnitPlan& unit : core_->plan()) {
    for (const Bucket& bucket : unit.buckets) {
      for (const std::string& kind : kinds) {
        StateGather(*core_, bucket).run(kind, own, all, whole);
      }
    }
  }
  return whole;
}

void ShardedOptimizer::load_state_dict(const StateDict& states) {
  fused("load_state_dict()")
      .load_state_dict(cut_states(states, *core_), names());
}

} // namespace argosy::sharding
