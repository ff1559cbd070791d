#include "argosy/optim/local_sgd.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "argosy/comm/operation/label.h"
#include "argosy/comm/ops.h"
#include "argosy/common/error.h"
#include "argosy/optim/flat_parameters.h"

namespace argosy::optim {

namespace {

// The upper bound of next_k_steps().
constexpr double kMostSteps = 16;

// Parameters of one type, and their values at the last average.
struct Snapshot {
  std::vector<at::Tensor> params;
  FlatTensors values;

  explicit Snapshot(std::vector<at::Tensor> params_in)
      : params(std::move(params_in)),
        values(flat_zeros(params, params[0].scalar_type())) {
    take();
  }

  void take() {
    for (std::size_t i = 0; i < params.size(); ++i) {
      values.views[i].copy_(params[i]);
    }
  }

  // Moves the snapshot by the mean of how far the ranks have moved, and copies
  // it to the parameters.
  // One all_reduce per type, of as many bytes as the parameters have.
  void average(const std::shared_ptr<Group>& group) {
    const FlatTensors moved = flat_zeros(params, params[0].scalar_type());
    for (std::size_t i = 0; i < params.size(); ++i) {
      moved.views[i].copy_(values.views[i]).sub_(params[i]);
    }
    // Of differences, which lose less to rounding than the parameters would.
    static const OpLabel label("local SGD: average of the models");
    const LabelScope scope(label);
    all_reduce(moved.buffer, ReduceOp::AVG, group);
    values.buffer.sub_(moved.buffer);
    for (std::size_t i = 0; i < params.size(); ++i) {
      params[i].copy_(values.views[i]);
    }
  }
};

} // namespace

struct LocalSgd::Snapshots {
  std::vector<Snapshot> by_type;
};

LocalSgd::LocalSgd(
    std::vector<at::Tensor> params,
    LocalSgdOptions options,
    std::shared_ptr<Group> group)
    : options_(options),
      group_(std::move(group)),
      snapshots_(std::make_unique<Snapshots>()) {
  ARGOSY_CHECK(
      options.begin_step >= 1,
      "[optim.local_sgd] begin_step {}, expected >= 1",
      options.begin_step);
  set_k_steps(options.k_steps);
  const at::NoGradGuard no_grad;
  for (auto& list : split_by_type(params)) {
    snapshots_->by_type.emplace_back(std::move(list));
  }
}

LocalSgd::~LocalSgd() = default;
LocalSgd::LocalSgd(LocalSgd&&) noexcept = default;

void LocalSgd::set_k_steps(int k_steps) {
  ARGOSY_CHECK(
      k_steps >= 1, "[optim.local_sgd] k_steps {}, expected >= 1", k_steps);
  options_.k_steps = k_steps;
}

void LocalSgd::set_state(const State& state) {
  set_k_steps(state.k_steps);
  num_steps_ = state.num_steps;
  last_average_ = state.num_steps;
  const at::NoGradGuard no_grad;
  for (Snapshot& snapshot : snapshots_->by_type) {
    snapshot.take();
  }
}

bool LocalSgd::step() {
  ++num_steps_;
  const bool due = num_steps_ <= options_.begin_step ||
      num_steps_ - last_average_ >= options_.k_steps;
  if (due) {
    average();
  }
  return due;
}

void LocalSgd::average() {
  const at::NoGradGuard no_grad;
  for (Snapshot& snapshot : snapshots_->by_type) {
    snapshot.average(group_);
  }
  if (average_states_) {
    average_states_(group_);
  }
  last_average_ = num_steps_;
}

int next_k_steps(
    int init_k_steps, double lr0, double loss0, double lr, double loss) {
  // AdaComm's rule (Wang and Joshi): average more often as the loss falls, less
  // often as the learning rate does.
  const double root = std::sqrt(lr0 * loss / (lr * loss0) * init_k_steps);
  // NaN, as from an initial loss of 0, counts as the maximum.
  if (!(root < kMostSteps)) {
    return static_cast<int>(kMostSteps);
  }
  return static_cast<int>(std::max(1.0, std::ceil(root)));
}

AdaptiveLocalSgd::AdaptiveLocalSgd(
    std::vector<at::Tensor> params,
    AdaptiveLocalSgdOptions options,
    std::shared_ptr<Group> group,
    std::shared_ptr<Group> loss_group)
    : options_(options),
      loss_group_(loss_group ? std::move(loss_group) : group),
      local_(
          std::move(params),
          {.k_steps = options.init_k_steps, .begin_step = options.begin_step},
          std::move(group)) {}

void AdaptiveLocalSgd::set_state(const State& state) {
  local_.set_state(state.local);
  start_ = state.start;
}

double AdaptiveLocalSgd::mean_loss(double loss) const {
  const at::Tensor mean = at::full({1}, loss, c10::kDouble);
  all_reduce(mean, ReduceOp::AVG, loss_group_);
  return mean.item<double>();
}

bool AdaptiveLocalSgd::step(double loss, double lr) {
  // The mean over ranks, because all ranks must arrive at the same k_steps:
  // averaging is collective.
  if (!start_) {
    start_ = Start{mean_loss(loss), lr};
  }
  const bool averaged = local_.step();
  if (averaged) {
    const double mean = mean_loss(loss);
    local_.set_k_steps(next_k_steps(
        options_.init_k_steps, start_->lr, start_->loss, lr, mean));
  }
  return averaged;
}

} // namespace argosy::optim
