#include "argosy/pipeline/engine.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/observe/span.h"
#include "argosy/optim/autocast.h"
#include "argosy/torch_hooks/backward.h"
#include "argosy/training/loss_scale.h"

namespace argosy::pipeline {

namespace {

const char* name_of(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return "forward";
    case Pass::kBackward:
      return "backward";
    case Pass::kBackwardInput:
      return "backward of inputs";
    case Pass::kBackwardWeight:
      return "backward of weights";
  }
  return "";
}

Tensors with_grad(const Tensors& tensors) {
  Tensors some;
  std::copy_if(
      tensors.begin(),
      tensors.end(),
      std::back_inserter(some),
      [](const at::Tensor& each) { return each.requires_grad(); });
  return some;
}

// Backward needs only the graph nodes of the outputs. Keeping no reference to
// their data frees it once it is sent, unless an op has saved it.
Tensors graph_roots(const Tensors& outputs) {
  Tensors roots;
  for (const at::Tensor& each : with_grad(outputs)) {
    roots.push_back(torch_hooks::without_values(each));
  }
  return roots;
}

// Removing backwards cannot cause a deadlock: no forward waits for one.
Schedule forwards_of(const Schedule& schedule) {
  Schedule forwards = schedule;
  for (auto& steps : forwards.steps) {
    std::erase_if(
        steps, [](const Step& step) { return step.pass != Pass::kForward; });
  }
  return forwards;
}

// Runs a whole backward; returns the gradients of the inputs that require one.
Tensors whole_backward(
    const Tensors& outputs, const Tensors& gradients, const Tensors& inputs) {
  if (!outputs.empty()) {
    torch::autograd::backward(outputs, gradients);
  }
  Tensors results;
  // The inputs are leaves of this part's graph; their gradients go to the
  // previous part.
  for (const at::Tensor& each : inputs) {
    results.push_back(each.grad());
    each.mutable_grad() = at::Tensor();
  }
  return results;
}

} // namespace

Engine::Engine(
    StageModel& model, bool autocast, optim::AutoCastLists autocast_lists)
    : model_(model),
      autocast_(autocast),
      autocast_lists_(std::move(autocast_lists)),
      transport_(model.group()) {}

bool Engine::is_last(int chunk) const {
  return schedule_->part_of(model_.stage(), chunk) + 1 == schedule_->parts();
}

Engine::Result Engine::train(const Schedule& schedule, const Batch& batch) {
  return run(schedule, batch, true);
}

Engine::Result Engine::evaluate(const Schedule& schedule, const Batch& batch) {
  const at::NoGradGuard no_grad;
  // run() keeps a pointer to the temporary schedule only until it returns.
  return run(forwards_of(schedule), batch, false);
}

// Only the first stage has the module's inputs; it tells the others.
BatchShapes Engine::shapes() const {
  if (model_.stage() != 0) {
    return {};
  }
  const Metas first = metas_of(batch_->microbatches.front().inputs);
  const auto& all = batch_->microbatches;
  return {
      .uniform = !batch_->dynamic_shapes &&
          std::ranges::all_of(
              all,
              [&](const Microbatch& each) {
                return metas_of(each.inputs) == first;
              }),
      // Evaluation has its own entry: without gradients, other tensors require
      // grad.
      .fingerprint = fingerprint(first) + (trains_ ? 1 : 0)};
}

Engine::Result Engine::run(
    const Schedule& schedule, const Batch& batch, bool trains) {
  ARGOSY_CHECK(
      static_cast<int>(batch.microbatches.size()) == schedule.microbatches,
      "[pipeline] {} microbatches for a schedule of {}",
      batch.microbatches.size(),
      schedule.microbatches);
  // All state of a batch is reset here, so that a batch after one that threw
  // starts clean.
  schedule_ = &schedule;
  batch_ = &batch;
  trains_ = trains;
  result_ = {};
  pending_.clear();
  local_.clear();
  times_.clear();
  // shapes() reads batch_ and trains_, so both are set by now.
  transport_.begin(schedule, shapes());
  // After begin(), in which later stages wait for the first one.
  start_ = std::chrono::steady_clock::now();
  for (const Step& step :
       schedule.steps[static_cast<std::size_t>(model_.stage())]) {
    do_step(step);
  }
  transport_.finish();
  return std::move(result_);
}

void Engine::do_step(const Step& step) {
  fault_point("pipeline.step");
  const Tensors needed = receive(step);
  const auto now = [&] {
    const std::chrono::duration<double> since =
        std::chrono::steady_clock::now() - start_;
    return since.count();
  };
  // Listeners and times exclude the wait for messages.
  if (listener_) {
    listener_(step, true);
  }
  times_.push_back({step, now(), 0});
  const Tensors made = compute(step, needed);
  fault_point("pipeline.computed");
  times_.back().end = now();
  if (listener_) {
    listener_(step, false);
  }
  send(step, made);
  // Last, so that the next stage need not wait for it.
  if (batch_->after_backward &&
      (step.pass == Pass::kBackward || step.pass == Pass::kBackwardWeight)) {
    batch_->after_backward();
  }
}

Tensors Engine::compute(const Step& step, const Tensors& needed) {
  const observe::Span span(name_of(step.pass));
  const training::LossScale scale(batch_->loss_scale);
  return step.pass == Pass::kForward ? forward(step, needed)
                                     : backward(step, needed);
}

Tensors Engine::receive(const Step& step) {
  const auto message = needed_by(*schedule_, model_.stage(), step);
  if (!message) {
    return {};
  }
  const auto here = local_.find(*message);
  return here == local_.end() ? transport_.receive(*message)
                              : std::move(local_.extract(here).mapped());
}

// Sends to another stage, or stores for another part of this one.
void Engine::send(const Step& step, const Tensors& tensors) {
  const auto message = made_by(*schedule_, model_.stage(), step);
  if (!message) {
    return;
  }
  if (schedule_->stage_of(message->part) != model_.stage()) {
    transport_.send(*message, tensors);
    return;
  }
  // Detached, because backward of the two parts runs separately.
  Tensors& kept = local_[*message];
  for (const at::Tensor& each : tensors) {
    kept.push_back(each.detach());
    kept.back().requires_grad_(!message->is_gradient && each.requires_grad());
  }
}

Tensors Engine::run_part(int chunk, const Tensors& inputs) {
  if (!autocast_) {
    return model_.forward(chunk, inputs);
  }
  Tensors outputs;
  {
    const optim::AutoCast cast(true, at::kBFloat16, autocast_lists_);
    outputs = model_.forward(chunk, inputs);
  }
  // The loss is computed in float32.
  if (is_last(chunk)) {
    for (at::Tensor& each : outputs) {
      if (each.scalar_type() == at::kBFloat16) {
        each = each.to(at::kFloat);
      }
    }
  }
  return outputs;
}

Tensors Engine::forward(const Step& step, const Tensors& needed) {
  const Microbatch& batch =
      batch_->microbatches[static_cast<std::size_t>(step.microbatch)];
  const bool is_first = schedule_->part_of(model_.stage(), step.chunk) == 0;
  const Tensors& inputs = is_first ? batch.inputs : needed;
  Tensors outputs = run_part(step.chunk, inputs);
  if (is_last(step.chunk)) {
    outputs = loss_of(step, outputs);
  }
  if (trains_) {
    PendingMicrobatch& state = pending_[{step.chunk, step.microbatch}];
    state.inputs = is_first ? Tensors() : with_grad(inputs);
    state.outputs = graph_roots(outputs);
    if (is_last(step.chunk)) {
      // The root of the last part is the loss itself.
      state.gradients = {at::ones_like(outputs.front())};
    }
  }
  return outputs;
}

// Returns the root of backward or, without backward, the outputs.
Tensors Engine::loss_of(const Step& step, const Tensors& outputs) {
  const Microbatch& batch =
      batch_->microbatches[static_cast<std::size_t>(step.microbatch)];
  if (!trains_) {
    result_.outputs.push_back(outputs);
  }
  if (!batch_->loss) {
    return outputs;
  }
  const at::Tensor loss = batch_->loss(outputs, batch.labels);
  ARGOSY_CHECK(
      loss.numel() == 1,
      "[pipeline] the loss has {} elements, expected one",
      loss.numel());
  result_.losses.push_back(loss.detach());
  return {batch_->scale ? batch_->scale(loss) : loss};
}

Tensors Engine::backward(const Step& step, const Tensors& needed) {
  // Present in every verified schedule: the forward of the step came before.
  const auto found = pending_.find({step.chunk, step.microbatch});
  PendingMicrobatch& state = found->second;
  if (step.pass == Pass::kBackwardWeight) {
    if (state.split) {
      state.split->weight();
    }
    pending_.erase(found);
    return {};
  }
  // Moved out, so that they are released when this step ends.
  const Tensors outputs = std::move(state.outputs);
  const Tensors inputs = std::move(state.inputs);
  const Tensors gradients =
      is_last(step.chunk) ? std::move(state.gradients) : needed;
  Tensors results(inputs.size());
  if (step.pass == Pass::kBackward) {
    pending_.erase(found);
    results = whole_backward(outputs, gradients, inputs);
  } else if (!outputs.empty()) {
    results = state.split.emplace().input(outputs, gradients, inputs);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined()) { // the loss does not depend on this input
      results[i] = at::zeros_like(inputs[i]);
    }
  }
  return results;
}

} // namespace argosy::pipeline
