#include "argosy/optim/ema.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "argosy/comm/operation/label.h"
#include "argosy/comm/ops.h"
#include "argosy/common/error.h"
#include "argosy/optim/adam_numbers.h"
#include "argosy/optim/flat_parameters.h"
#include "argosy/optim/local.h"
#include "argosy/optim/spans.h"
#include "argosy/torch_hooks/backward.h"

namespace argosy::optim {

namespace {

void check(const std::vector<at::Tensor>& params, const EmaOptions& options) {
  ARGOSY_CHECK(
      options.decay >= 0 && options.decay < 1,
      "[optim.ema] decay {}, expected in [0, 1)",
      options.decay);
  for (std::size_t i = 0; i < params.size(); ++i) {
    const at::Tensor& param = local_of(params[i]);
    ARGOSY_CHECK(
        param.device().is_cpu() && format_of(param) &&
            param.is_non_overlapping_and_dense(),
        "[optim.ema] parameter {}: expected a dense tensor of floats on the "
        "CPU, or a DTensor of such parts",
        i);
  }
}

c10::ScalarType type_of_average(const at::Tensor& param) {
  return param.scalar_type() == c10::kDouble ? c10::kDouble : c10::kFloat;
}

// Zeros with the shapes of the parameters; those of one type share a buffer.
std::vector<at::Tensor> zeros_like(
    const std::vector<at::Tensor>& params, std::vector<at::Tensor>& buffers) {
  std::vector<at::Tensor> zeros(params.size());
  for (const auto type : {c10::kFloat, c10::kDouble}) {
    std::vector<at::Tensor> mine;
    for (const at::Tensor& param : params) {
      if (type_of_average(param) == type) {
        mine.push_back(param);
      }
    }
    if (mine.empty()) {
      continue;
    }
    const FlatTensors flat = flat_zeros(mine, type);
    buffers.push_back(flat.buffer);
    auto next = flat.views.begin();
    for (std::size_t i = 0; i < params.size(); ++i) {
      if (type_of_average(params[i]) == type) {
        zeros[i] = *next++;
      }
    }
  }
  return zeros;
}

} // namespace

Ema::Ema(std::vector<at::Tensor> params, EmaOptions options)
    : params_(std::move(params)), options_(options) {
  check(params_, options_);
  const at::NoGradGuard no_grad;
  averages_ = zeros_like(locals_of(params_), buffers_);
  // With the correction the average begins at 0, which the division in
  // average() makes up for; without it, at the parameters.
  for (std::size_t i = 0; !options_.bias_correction && i < params_.size();
       ++i) {
    averages_[i].copy_(local_of(params_[i]));
  }
}

void Ema::update() {
  ARGOSY_CHECK(
      !applied(), "[optim.ema] update() between apply() and restore()");
  std::vector<Span> spans;
  spans.reserve(params_.size());
  for (std::size_t i = 0; i < params_.size(); ++i) {
    spans.push_back(span_of(local_of(params_[i])));
    spans.back().tile.states[0] = averages_[i].data_ptr();
  }
  run(kernels().ema, spans, EmaStep{options_.decay});
  ++num_updates_;
}

void Ema::average_ranks(const std::shared_ptr<Group>& group) {
  static const OpLabel label("moving averages of the models");
  const LabelScope scope(label);
  for (const at::Tensor& buffer : buffers_) {
    all_reduce(buffer, ReduceOp::AVG, group);
  }
}

at::Tensor Ema::average(std::size_t index) const {
  const at::NoGradGuard no_grad;
  if (!options_.bias_correction) {
    return averages_[index].clone();
  }
  ARGOSY_CHECK(num_updates_ > 0, "[optim.ema] no update() so far");
  return averages_[index].div(bias_correction(options_.decay, num_updates_));
}

void Ema::apply() {
  ARGOSY_CHECK(!applied(), "[optim.ema] apply() twice");
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> saved;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    // average() may throw: saved_ is set last, so that applied() stays false.
    const at::Tensor value = average(i);
    saved.push_back(local_of(params_[i]).detach().clone());
    local_of(params_[i]).detach().copy_(value);
    torch_hooks::bump_version(params_[i]);
  }
  saved_ = std::move(saved);
}

void Ema::restore() {
  ARGOSY_CHECK(applied(), "[optim.ema] restore() without apply()");
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    local_of(params_[i]).detach().copy_(saved_[i]);
    torch_hooks::bump_version(params_[i]);
  }
  saved_.clear();
}

void Ema::load(const std::vector<at::Tensor>& state, std::int64_t num_updates) {
  ARGOSY_CHECK(
      state.size() == averages_.size(),
      "[optim.ema] {} averages, expected {}",
      state.size(),
      averages_.size());
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < state.size(); ++i) {
    averages_[i].copy_(state[i]);
  }
  num_updates_ = num_updates;
}

} // namespace argosy::optim
