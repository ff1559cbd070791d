#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "argosy/pipeline/cut/part_runner.h"

// Runs a module whole and in parts, as the stages of a pipeline would: what
// goes from part to part carries values alone, and gradients go back.
namespace argosy::testing {

using pipeline::Cuts;
using pipeline::Forward;
using pipeline::PartRunner;
using pipeline::Program;
using pipeline::Tensors;

struct Trained {
  Tensors outputs;
  Tensors input_grads;
  std::map<std::string, at::Tensor> grads;   // of parameters
  std::map<std::string, at::Tensor> buffers; // after the run
};

inline at::Tensor sum_of(const Tensors& outputs) {
  at::Tensor loss = torch::zeros({});
  for (const at::Tensor& output : outputs) {
    if (output.requires_grad()) { // not the same for all elements
      const at::Tensor each = output.to(torch::kFloat).flatten();
      loss = loss + (each * torch::linspace(-1, 2, each.numel())).sum();
    }
  }
  return loss;
}

inline Tensors leaves(const Tensors& inputs) {
  Tensors copies;
  for (const at::Tensor& input : inputs) {
    copies.push_back(
        input.detach().clone().requires_grad_(input.requires_grad()));
  }
  return copies;
}

inline Trained collect(
    torch::nn::Module& module, const Tensors& outputs, const Tensors& inputs) {
  Trained trained{.outputs = outputs};
  for (const at::Tensor& input : inputs) {
    trained.input_grads.push_back(input.grad());
  }
  for (const auto& item : module.named_parameters()) {
    trained.grads[item.key()] = item.value().grad().defined()
        ? item.value().grad().clone()
        : at::Tensor();
    item.value().mutable_grad().reset();
  }
  for (const auto& item : module.named_buffers()) {
    trained.buffers[item.key()] = item.value().clone();
  }
  return trained;
}

inline Trained train_whole(
    torch::nn::Module& module, const Forward& forward, const Tensors& inputs) {
  torch::manual_seed(3);
  const Tensors own = leaves(inputs);
  const Tensors outputs = forward(own);
  sum_of(outputs).backward();
  return collect(module, outputs, own);
}

// Contiguous, as a message would be.
inline Tensors sent_over(const Tensors& sent, const pipeline::Metas& metas) {
  Tensors received;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(sent[i].sizes(), at::IntArrayRef(metas[i].sizes));
    EXPECT_EQ(sent[i].scalar_type(), metas[i].type);
    EXPECT_EQ(sent[i].requires_grad(), metas[i].requires_grad);
    received.push_back(sent[i]
                           .detach()
                           .clone(at::MemoryFormat::Contiguous)
                           .requires_grad_(metas[i].requires_grad));
  }
  return received;
}

inline void send_back(const Tensors& sent, const Tensors& received) {
  Tensors roots;
  Tensors grads;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (received[i].grad().defined()) {
      roots.push_back(sent[i]);
      grads.push_back(received[i].grad());
    }
  }
  torch::autograd::backward(roots, grads);
}

inline std::vector<PartRunner> runners_of(
    const std::shared_ptr<const Program>& program, const Cuts& cuts) {
  std::vector<PartRunner> runners;
  for (const auto& part : cuts.parts) {
    runners.emplace_back(program, part);
  }
  return runners;
}

inline Trained train_parts(
    torch::nn::Module& module,
    const std::vector<PartRunner>& runners,
    const Tensors& inputs) {
  torch::manual_seed(3);
  std::vector<Tensors> received = {leaves(inputs)};
  std::vector<Tensors> sent;
  for (const PartRunner& runner : runners) {
    sent.push_back(runner.run(received.back()));
    received.push_back(
        &runner == &runners.back() ? Tensors()
                                   : sent_over(sent.back(), runner.sent()));
  }
  sum_of(sent.back()).backward();
  for (std::size_t i = runners.size() - 1; i > 0; --i) {
    send_back(sent[i - 1], received[i]);
  }
  return collect(module, sent.back(), received[0]);
}

// Bit for bit.
inline bool is_same(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() == b.defined() &&
      (!a.defined() ||
       (a.scalar_type() == b.scalar_type() && torch::equal(a, b)));
}

inline void expect_same(
    const std::map<std::string, at::Tensor>& a,
    const std::map<std::string, at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    EXPECT_TRUE(is_same(tensor, b.at(name))) << name;
  }
}

inline void expect_same(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(is_same(a[i], b[i])) << "tensor " << i;
  }
}

inline void expect_same(const Trained& a, const Trained& b) {
  expect_same(a.outputs, b.outputs);
  expect_same(a.input_grads, b.input_grads);
  expect_same(a.grads, b.grads);
  expect_same(a.buffers, b.buffers);
}

} // namespace argosy::testing
