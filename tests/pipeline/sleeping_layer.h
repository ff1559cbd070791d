#pragma once

#include <torch/torch.h>

#include <chrono>
#include <thread>

namespace argosy::testing {

inline void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// x, which backward comes by slowly.
struct SlowGradient : torch::autograd::Function<SlowGradient> {
  static at::Tensor forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& x,
      double seconds) {
    context->saved_data["seconds"] = seconds;
    return x.view_as(x);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list gradients) {
    sleep_for(context->saved_data["seconds"].toDouble());
    return {gradients[0], at::Tensor()};
  }
};

// A layer that takes time and no cores, so that a machine with few of them can
// have many stages.
struct SleepingLayerImpl : torch::nn::Module {
  SleepingLayerImpl(double its_forward, double its_input, double its_weight)
      : forward_time(its_forward),
        input_time(its_input),
        weight_time(its_weight),
        weight(register_parameter("weight", torch::ones({1, 1}))) {}

  at::Tensor forward(const at::Tensor& x) {
    sleep_for(forward_time);
    // The first layer of a model has no gradient to pass on.
    return torch::mm(
        SlowGradient::apply(x.requires_grad() ? x : x * weight, input_time),
        SlowGradient::apply(weight, weight_time));
  }

  const double forward_time;
  const double input_time;
  const double weight_time;
  at::Tensor weight;
};

} // namespace argosy::testing
