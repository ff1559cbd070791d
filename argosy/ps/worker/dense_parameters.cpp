#include "argosy/ps/worker/dense_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "argosy/common/error.h"

namespace argosy::ps {

DenseParameters::DenseParameters(
    Client& client,
    Communicator& communicator,
    DensePulls pulls,
    std::uint32_t table)
    : client_(client),
      communicator_(communicator),
      pulls_(pulls),
      table_(table) {
  ARGOSY_CHECK(
      pulls_.every >= 1,
      "[ps.session] dense values every {} steps, expected 1 or more",
      pulls_.every);
  const Mode mode = communicator.options().mode;
  ARGOSY_CHECK(
      (pulls_.every == 1 && !pulls_.beside) || mode == Mode::Async ||
          mode == Mode::HalfAsync,
      "[ps.session] dense values every {} steps or beside a step in {} mode, "
      "expected async or half_async",
      pulls_.every,
      to_string(mode));
}

std::vector<float> DenseParameters::values(bool gradients) const {
  std::vector<float> values;
  values.reserve(size_);
  for (const at::Tensor& parameter : parameters_) {
    const at::Tensor tensor = gradients ? parameter.grad() : parameter.detach();
    if (!tensor.defined()) {
      values.resize(
          values.size() + static_cast<std::size_t>(parameter.numel()), 0.0f);
      continue;
    }
    const at::Tensor flat = tensor.contiguous();
    const float* data = flat.data_ptr<float>();
    values.insert(values.end(), data, data + flat.numel());
  }
  return values;
}

void DenseParameters::set_values(std::span<const float> values) {
  const at::NoGradGuard no_grad;
  const float* next = values.data();
  for (const at::Tensor& parameter : parameters_) {
    const at::Tensor flat = at::empty(parameter.sizes(), at::kFloat);
    std::copy(next, next + flat.numel(), flat.data_ptr<float>());
    parameter.copy_(flat);
    next += flat.numel();
  }
}

void DenseParameters::add(
    std::vector<at::Tensor> parameters, DenseConfig config) {
  for (const at::Tensor& parameter : parameters) {
    ARGOSY_CHECK(
        parameter.scalar_type() == at::kFloat,
        "[ps.add_dense] a parameter of {}, expected Float",
        parameter.scalar_type());
    size_ += static_cast<std::size_t>(parameter.numel());
  }
  parameters_ = std::move(parameters);
  config.table_id = static_cast<int>(table_);
  if (communicator_.options().mode == Mode::Geo) {
    config.rule = DenseRule::Sum;
  }
  client_.create_table(
      {.is_dense = true, .dense = config, .dense_size = size_});
  const bool begins = communicator_.step() <= 0;
  if (client_.options().worker == 0 && begins) {
    client_.set_dense(table_, values(false));
  }
  if (begins) {
    client_.barrier("dense");
  }
  pull();
}

void DenseParameters::pull() {
  if (empty()) {
    return;
  }
  finish_pull();
  std::vector<float> values(size_);
  client_.pull({}, {{table_, values}}, communicator_.step());
  set_values(values);
  old_ = std::move(values);
}

void DenseParameters::finish_pull() {
  if (pending_.valid()) {
    pending_.wait();
    pending_ = PendingPull();
    set_values(coming_);
  }
}

void DenseParameters::add_gradients(Gradients& gradients) const {
  if (!empty()) {
    gradients.dense.push_back({table_, values(true)});
  }
}

void DenseParameters::receive() {
  if (empty()) {
    return;
  }
  finish_pull();
  if (++age_ < pulls_.every) {
    return;
  }
  age_ = 0;
  coming_.resize(size_);
  pending_ = client_.start_pull({}, {{table_, coming_}}, communicator_.step());
  if (!pulls_.beside) {
    finish_pull();
  }
}

void DenseParameters::zero_gradients() {
  for (const at::Tensor& parameter : parameters_) {
    if (parameter.grad().defined()) {
      parameter.mutable_grad().zero_();
    }
  }
}

// delta = (local - old) / workers; local += server - old.
void DenseParameters::exchange() {
  if (empty()) {
    return;
  }
  std::vector<float> local = values(false);
  const auto workers = static_cast<float>(client_.options().job.num_workers);
  Gradients deltas;
  deltas.dense.push_back({table_, std::vector<float>(size_)});
  for (std::size_t i = 0; i < size_; ++i) {
    const float delta = (local[i] - old_[i]) / workers;
    deltas.dense[0].gradient[i] = delta;
    old_[i] += delta;
  }
  communicator_.push(deltas);
  std::vector<float> theirs(size_);
  client_.pull({}, {{table_, theirs}});
  for (std::size_t i = 0; i < size_; ++i) {
    local[i] += theirs[i] - old_[i];
  }
  set_values(local);
  old_ = std::move(theirs);
}

} // namespace argosy::ps
