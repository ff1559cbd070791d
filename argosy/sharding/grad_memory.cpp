#include "argosy/sharding/grad_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/data_parallel/bucket_memory.h"
#include "argosy/observe/span.h"
#include "argosy/optim/flat_parameters.h"
#include "argosy/torch_hooks/backward.h"
#include "argosy/training/main_grads.h"
#include "argosy/training/parameter_marks.h"

namespace argosy::sharding {

namespace {

// One is reduced while the next is filled.
constexpr std::size_t kMostInFlight = 1;

} // namespace

struct GradMemory::Parameter {
  at::Tensor tensor;
  std::optional<torch_hooks::GradHook> hook;
  std::size_t grad = 0; // in grads_
  std::int64_t begin = 0;
  bool ready = false;
};

struct GradMemory::FlatGrad {
  std::size_t unit = 0;
  std::size_t flat = 0;
  bool is_expert = false;
  c10::ScalarType type = c10::kFloat;
  at::Tensor whole;                // while gradients come in
  at::Tensor part;                 // this rank's, of all ranks
  std::vector<std::size_t> pieces; // in pieces_
  std::vector<at::Tensor> piece_grads;

  // Of the current backward.
  std::size_t pending = 0;
  at::Tensor incoming; // the part itself, or what is added to it
  WorkPtr reducing;
  WorkPtr averaging; // over replicas
};

GradMemory::GradMemory(
    std::vector<Unit>& units,
    const std::vector<ParameterInfo>& parameters,
    std::shared_ptr<BufferPool> pool,
    std::shared_ptr<ShardMemory> shards,
    GradOptions options,
    std::function<void(std::size_t)> on_complete)
    : units_(units),
      infos_(parameters),
      pool_(std::move(pool)),
      shards_(std::move(shards)),
      options_(std::move(options)),
      on_complete_(std::move(on_complete)) {
  const at::NoGradGuard no_grad;
  parameters_.resize(infos_.size());
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    for (std::size_t flat = 0; flat < units_[unit].flats.size(); ++flat) {
      if (units_[unit].flats[flat].plan.trainable) {
        add(unit, flat);
      }
    }
  }
  order_ = expected_order();
}

GradMemory::~GradMemory() = default;

// Backward most likely comes to the parameters in the reverse of registration.
std::vector<std::size_t> GradMemory::expected_order() const {
  const auto last_parameter = [&](std::size_t grad) {
    std::size_t last = 0;
    for (const FlatEntry& entry :
         units_[grads_[grad].unit].flats[grads_[grad].flat].plan.entries) {
      last = std::max(last, entry.parameter);
    }
    return last;
  };
  std::vector<std::size_t> order(grads_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return last_parameter(a) > last_parameter(b);
  });
  return order;
}

void GradMemory::add(std::size_t unit, std::size_t index) {
  const Flat& flat = units_[unit].flats[index];
  FlatGrad grad{
      .unit = unit,
      .flat = index,
      .is_expert = flat.plan.is_expert,
      .type = training::grad_type(flat.type, options_.main_grad)};
  if (options_.keeps_whole) {
    grad.whole = data_parallel::bucket_memory(
        static_cast<std::size_t>(flat.plan.count), grad.type, options_.group);
    grad.part =
        part_of(grad.whole, options_.group->rank(), options_.group->nranks());
  } else {
    grad.part = shards_->make(flat.shard.numel(), grad.type);
    shards_->let_go(grad.part, true);
  }
  for (std::size_t i = 0; i < flat.params.size(); ++i) {
    const FlatEntry& entry = flat.plan.entries[i];
    Parameter& parameter = parameters_[entry.parameter];
    parameter.tensor = flat.params[i];
    parameter.grad = grads_.size();
    parameter.begin = entry.begin;
    parameter.hook.emplace(parameter.tensor, [this, number = entry.parameter] {
      on_gradient(number);
    });
  }
  make_pieces(grad);
  grads_.push_back(std::move(grad));
}

void GradMemory::make_pieces(FlatGrad& grad) {
  const Flat& flat = units_[grad.unit].flats[grad.flat];
  for (const Piece& piece :
       pieces_of(flat.plan, options_.group->rank(), options_.group->nranks())) {
    const at::Tensor like = at::empty({piece.count}, flat.shard.options());
    grad.pieces.push_back(pieces_.size());
    grad.piece_grads.push_back(optim::alias(grad.part, piece.in_part, like));
    pieces_.emplace_back(piece, optim::alias(flat.shard, piece.in_part, like));
    set_marks(
        pieces_.back().second, marks_of(parameters_[piece.parameter].tensor));
  }
}

// Whether gradients of earlier backward passes wait for the step.
bool GradMemory::has_gradient(const FlatGrad& grad) const {
  return std::any_of(
      grad.pieces.begin(), grad.pieces.end(), [&](std::size_t i) {
        return pieces_[i].second.grad().defined();
      });
}

void GradMemory::on_gradient(std::size_t number) {
  if (!sync_) {
    if (options_.keeps_whole) {
      keep(parameters_[number]);
    } else if (options_.main_grad) {
      training::widen_grad(parameters_[number].tensor);
    }
    return;
  }
  ARGOSY_CHECK(
      !at::GradMode::is_enabled(),
      "[sharding] backward with create_graph (double backward) cannot be "
      "sharded");
  if (!under_way_) {
    begin_backward();
  }
  Parameter& parameter = parameters_[number];
  ARGOSY_CHECK(
      !parameter.ready,
      "[sharding] the gradient of ",
      infos_[number].name,
      " became ready twice in one backward");
  take(parameter);
  FlatGrad& grad = grads_[parameter.grad];
  if (--grad.pending == 0) {
    mark_complete(grad);
  }
}

void GradMemory::begin() {
  under_way_ = true;
  next_ = 0;
  observed_.clear();
  for (Parameter& parameter : parameters_) {
    parameter.ready = false;
  }
  for (FlatGrad& grad : grads_) {
    grad.pending = units_[grad.unit].flats[grad.flat].params.size();
  }
}

void GradMemory::begin_backward() {
  begin();
  torch_hooks::at_end_of_backward([this] { finish_backward(); });
}

// Buffer by buffer, so that no more are there at once than in backward.
void GradMemory::reduce() {
  begin();
  for (const std::size_t index : order_) {
    FlatGrad& grad = grads_[index];
    for (const FlatEntry& entry :
         units_[grad.unit].flats[grad.flat].plan.entries) {
      Parameter& parameter = parameters_[entry.parameter];
      if (!parameter.tensor.grad().defined()) {
        continue;
      }
      take(parameter);
      if (--grad.pending == 0) {
        mark_complete(grad);
      }
    }
  }
  finish_backward();
}

at::Tensor& GradMemory::whole_of(FlatGrad& grad) {
  const Flat& flat = units_[grad.unit].flats[grad.flat];
  if (!grad.whole.defined()) {
    grad.whole = pool_->take(flat.plan.count, grad.type);
  }
  // What is in the way of a new whole, when parts lie in it.
  if (options_.keeps_whole && !grad.incoming.defined() && has_gradient(grad)) {
    grad.incoming = grad.part.clone();
  }
  return grad.whole;
}

// The gradient lies in the buffer from now on.
void GradMemory::keep(Parameter& parameter) {
  const at::NoGradGuard no_grad;
  at::Tensor& gradient = parameter.tensor.mutable_grad();
  const at::Tensor place = optim::alias(
      whole_of(grads_[parameter.grad]), parameter.begin, parameter.tensor);
  if (!gradient.defined()) {
    place.zero_();
    return;
  }
  ARGOSY_CHECK(
      !gradient.is_sparse(),
      "[sharding] a sparse gradient of ",
      infos_[static_cast<std::size_t>(&parameter - parameters_.data())].name,
      " cannot be sharded: take a dense one, or DataParallel");
  if (gradient.data_ptr() != place.data_ptr()) {
    place.copy_(gradient);
    gradient = place;
  }
}

void GradMemory::take(Parameter& parameter) {
  keep(parameter);
  parameter.ready = true;
  parameter.tensor.mutable_grad() = at::Tensor();
}

void GradMemory::mark_complete(FlatGrad& grad) {
  observed_.push_back(static_cast<std::size_t>(&grad - grads_.data()));
  const bool unit_is_done =
      std::all_of(grads_.begin(), grads_.end(), [&](const FlatGrad& each) {
        return each.unit != grad.unit || each.pending == 0;
      });
  if (unit_is_done) {
    on_complete_(grad.unit);
  }
  start_in_order();
}

void GradMemory::start_in_order() {
  while (next_ < order_.size() && grads_[order_[next_]].pending == 0) {
    start(grads_[order_[next_++]]);
  }
}

void GradMemory::start(FlatGrad& grad) {
  while (in_flight_.size() >= kMostInFlight && !options_.keeps_whole) {
    retire_oldest();
  }
  const at::NoGradGuard no_grad;
  shards_->need(grad.part);
  at::Tensor out = grad.part;
  if (!options_.keeps_whole && has_gradient(grad)) {
    grad.incoming = at::empty_like(grad.part);
    out = grad.incoming;
  }
  grad.reducing =
      reduce_scatter(out, grad.whole, ReduceOp::AVG, options_.group, false);
  in_flight_.push_back(static_cast<std::size_t>(&grad - grads_.data()));
}

// What this backward has reduced.
at::Tensor& GradMemory::fresh_part(FlatGrad& grad) const {
  const bool is_apart = !options_.keeps_whole && grad.incoming.defined();
  return is_apart ? grad.incoming : grad.part;
}

// Waits until a part is there; its buffer is free then.
void GradMemory::retire_oldest() {
  FlatGrad& grad = grads_[in_flight_.front()];
  in_flight_.pop_front();
  grad.reducing->wait();
  grad.reducing = nullptr;
  const at::Tensor& fresh = fresh_part(grad);
  if (grad.is_expert && options_.expert_ranks > 1) {
    const at::NoGradGuard no_grad;
    fresh.div_(options_.expert_ranks);
  }
  const GroupPtr& replicas =
      grad.is_expert ? options_.expert_replicas : options_.replicas;
  if (replicas) {
    grad.averaging = all_reduce(fresh, ReduceOp::AVG, replicas, false);
  }
  if (!options_.keeps_whole) {
    pool_->give(grad.whole);
    grad.whole = at::Tensor();
  }
}

void GradMemory::finish_backward() {
  under_way_ = false;
  fill_unused();
  share_used();
  {
    const observe::Span span("wait for gradients", observe::Activity::Wait);
    while (!in_flight_.empty()) {
      retire_oldest();
    }
    for (FlatGrad& grad : grads_) {
      finish(grad);
    }
  }
  publish();
  follow_observed_order();
}

// Parameters without gradient count as zero, where that is allowed.
void GradMemory::fill_unused() {
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& parameter = parameters_[i];
    if (!parameter.hook || parameter.ready) {
      continue;
    }
    missing.push_back(infos_[i].name);
    if (!options_.find_unused_parameters) {
      continue;
    }
    take(parameter);
    parameter.ready = false;
    if (--grads_[parameter.grad].pending == 0) {
      mark_complete(grads_[parameter.grad]);
    }
  }
  ARGOSY_CHECK(
      missing.empty() || options_.find_unused_parameters,
      "[sharding] backward ended without a gradient for ",
      join(missing, ", "),
      ": the loss does not depend on them. Set find_unused_parameters, or "
      "leave them out by requires_grad_(false)");
}

// A parameter that no rank used keeps the gradient that it had.
void GradMemory::share_used() {
  if (!options_.find_unused_parameters) {
    return;
  }
  used_ = at::zeros({static_cast<std::int64_t>(parameters_.size())}, at::kInt);
  auto* used = used_.data_ptr<int>();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    used[i] = parameters_[i].ready ? 1 : 0;
  }
  all_reduce(used_, ReduceOp::MAX, options_.group);
  if (options_.replicas) {
    all_reduce(used_, ReduceOp::MAX, options_.replicas);
  }
}

void GradMemory::finish(FlatGrad& grad) {
  const at::NoGradGuard no_grad;
  if (grad.averaging) {
    grad.averaging->wait();
    grad.averaging = nullptr;
  }
  if (grad.incoming.defined()) {
    grad.part.add_(grad.incoming);
    grad.incoming = at::Tensor();
  }
  shards_->let_go(grad.part, true);
}

void GradMemory::publish() {
  for (FlatGrad& grad : grads_) {
    for (std::size_t i = 0; i < grad.pieces.size(); ++i) {
      auto& [piece, tensor] = pieces_[grad.pieces[i]];
      if (!used_.defined() || used_.data_ptr<int>()[piece.parameter] != 0) {
        tensor.mutable_grad() = grad.piece_grads[i];
      }
    }
  }
}

void GradMemory::follow_observed_order() {
  if (order_is_known_ || options_.find_unused_parameters ||
      observed_.size() != grads_.size()) {
    return;
  }
  order_is_known_ = true;
  at::Tensor order =
      at::empty({static_cast<std::int64_t>(grads_.size())}, at::kLong);
  auto* places = order.data_ptr<std::int64_t>();
  std::copy(observed_.begin(), observed_.end(), places);
  broadcast(order, options_.group->ranks().front(), options_.group);
  std::copy(places, places + order.numel(), order_.begin());
}

void GradMemory::zero_grad() {
  for (Parameter& parameter : parameters_) {
    if (parameter.hook) {
      parameter.tensor.mutable_grad() = at::Tensor();
    }
  }
  for (auto& [piece, tensor] : pieces_) {
    tensor.mutable_grad() = at::Tensor();
  }
}

void GradMemory::check_idle() const {
  ARGOSY_CHECK(
      !under_way_, "[sharding] the last backward did not come to its end");
}

} // namespace argosy::sharding
