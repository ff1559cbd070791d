#include "argosy/recomputation/recomputed_call.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "argosy/common/error.h"

// The first run leaves a placeholder for each tensor that autograd saves. The
// first unpack in backward runs the function again from its inputs; the i-th
// tensor that this replay saves fills the i-th placeholder. So the function
// must save the same tensors in the same order. Cost: one more forward, and
// while the backward of the call runs, its saved tensors.
namespace argosy::recomputation {

namespace {

using torch_hooks::SavedTensorHook;

// Thrown through the function to stop a replay when all tensors are there.
struct ReplayIsDone {};

class CallHooks final : public SavedTensorHook {
 public:
  explicit CallHooks(std::shared_ptr<RecomputedCall> call)
      : call_(std::move(call)) {}

  void pack(const at::Tensor& tensor) override {
    placeholder_ = call_->add(tensor);
  }
  at::Tensor unpack() override { return call_->take(*placeholder_); }

 private:
  const std::shared_ptr<RecomputedCall> call_;
  std::shared_ptr<Placeholder> placeholder_;
};

// Gives the tensors that a replay saves to the placeholders. The replay's own
// graph is not needed, except for what the function itself differentiates.
class ReplayHooks final : public SavedTensorHook {
 public:
  using Found = std::function<void(const at::Tensor&)>;

  explicit ReplayHooks(Found found) : found_(std::move(found)) {}

  void pack(const at::Tensor& tensor) override {
    value_ = tensor.detach();
    found_(value_);
  }
  at::Tensor unpack() override { return value_; }

 private:
  const Found found_;
  at::Tensor value_;
};

class ReplayKeeper final : public torch_hooks::SavedTensorKeeper {
 public:
  explicit ReplayKeeper(ReplayHooks::Found found) : found_(std::move(found)) {}

  std::unique_ptr<SavedTensorHook> hook() override {
    return std::make_unique<ReplayHooks>(found_);
  }

 private:
  const ReplayHooks::Found found_;
};

void check_is_same(const Placeholder& placeholder, const at::Tensor& tensor) {
  ARGOSY_CHECK(
      tensor.sizes() == placeholder.sizes &&
          tensor.scalar_type() == placeholder.dtype,
      "[recomputation.recompute] tensor {} that the function saves is {} {} "
      "when it runs again, expected {} {}",
      placeholder.index,
      tensor.scalar_type(),
      tensor.sizes(),
      placeholder.dtype,
      at::IntArrayRef(placeholder.sizes));
}

} // namespace

RecomputedCall::RecomputedCall(
    const RecomputeOptions& options,
    const std::vector<at::Tensor>& inputs,
    Replay replay)
    : options_(options),
      state_(options.preserve_rng_state),
      replay_(std::move(replay)) {
  for (const at::Tensor& input : inputs) {
    keep(input);
  }
}

void RecomputedCall::keep(const at::Tensor& input) {
  inputs_.push_back(keep_input(input, options_));
}

void RecomputedCall::forget(std::size_t input) {
  inputs_[input].reset();
}

std::unique_ptr<SavedTensorHook> RecomputedCall::hook() {
  return std::make_unique<CallHooks>(shared_from_this());
}

std::shared_ptr<Placeholder> RecomputedCall::add(const at::Tensor& tensor) {
  const std::lock_guard lock(mutex_);
  auto placeholder = std::make_shared<Placeholder>(Placeholder{
      placeholders_.size(), tensor.sizes().vec(), tensor.scalar_type(), {}});
  placeholders_.push_back(placeholder);
  return placeholder;
}

at::Tensor RecomputedCall::take(Placeholder& placeholder) {
  const std::lock_guard lock(mutex_);
  if (!placeholder.value.defined()) {
    replay();
  }
  // Otherwise the value goes at once: backward needs each one once, and memory
  // shrinks while it runs.
  if (torch_hooks::KeepUnpacked::is_inside()) {
    return placeholder.value;
  }
  return std::exchange(placeholder.value, {});
}

// Placeholders expire when autograd drops the node that saved them. Once the
// last live one is filled, the rest of the function need not run.
std::size_t RecomputedCall::num_wanted() const {
  std::size_t count = placeholders_.size();
  while (count > 0 && placeholders_[count - 1].expired()) {
    --count;
  }
  return count;
}

void RecomputedCall::replay() {
  std::vector<at::Tensor> inputs;
  for (const auto& input : inputs_) {
    inputs.push_back(input ? input->get() : at::Tensor());
  }
  const std::size_t wanted =
      options_.early_stop ? num_wanted() : placeholders_.size();
  std::size_t num_found = 0;
  ReplayKeeper keeper([&](const at::Tensor& tensor) {
    if (num_found >= placeholders_.size()) {
      return;
    }
    if (const auto placeholder = placeholders_[num_found++].lock()) {
      check_is_same(*placeholder, tensor);
      placeholder->value = tensor;
    }
    if (options_.early_stop && num_found == wanted) {
      throw ReplayIsDone();
    }
  });
  try {
    const auto restored = state_.restore();
    const at::AutoGradMode with_graph(true);
    const torch_hooks::SavedTensorScope scope(keeper);
    replay_(std::move(inputs));
  } catch (const ReplayIsDone&) {
    return;
  }
  ARGOSY_CHECK(
      num_found == placeholders_.size(),
      "[recomputation.recompute] the function saves {} tensors when it runs "
      "again, expected {}",
      num_found,
      placeholders_.size());
}

} // namespace argosy::recomputation
