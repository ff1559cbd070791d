#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "argosy/optim/gradients.h"
#include "tests/support/oracle_models.h"

// The GPT that combinations of axes train, and one process that trains it
// alone, on whole batches, in float64.
namespace argosy::testing {

struct GptTask {
  GptOptions gpt;
  long rows = 8; // of a batch
  int steps = 5;
  double limit = 0.5; // of the norm, which is above it at first

  Gpt make_gpt() const {
    Gpt result(gpt);
    set_weights(*result);
    return result;
  }
  at::Tensor tokens(long step) const {
    return ((numbers({rows, gpt.context}, step) + 1) * 5000)
        .to(torch::kLong)
        .remainder(gpt.vocab);
  }
  at::Tensor targets(long step) const { return tokens(step + 40); }
};

struct Trained {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> parameters;
};

inline Trained train_alone(const GptTask& task) {
  Trained trained;
  Gpt gpt = task.make_gpt();
  torch::optim::AdamW adam(gpt->parameters(), torch::optim::AdamWOptions(1e-2));
  for (int step = 0; step < task.steps; ++step) {
    adam.zero_grad();
    const at::Tensor loss = loss_of(gpt(task.tokens(step)), task.targets(step));
    loss.backward();
    optim::clip_grad_norm_(gpt->parameters(), task.limit);
    adam.step();
    trained.losses.push_back(loss.item<double>());
  }
  for (const auto& item : gpt->named_parameters()) {
    trained.parameters[item.key()] = item.value().detach();
  }
  return trained;
}

// Every parameter of `got`, which `name_of` finds in `expected`, and all
// losses.
inline void expect_close(
    const Trained& got,
    const Trained& expected,
    double loss_tolerance,
    const std::function<std::string(const std::string&)>& name_of =
        [](const std::string& name) { return name; }) {
  ASSERT_EQ(got.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], expected.losses[i], loss_tolerance)
        << "step " << i;
  }
  EXPECT_FALSE(got.parameters.empty());
  for (const auto& [name, value] : got.parameters) {
    EXPECT_TRUE(torch::allclose(
        value, expected.parameters.at(name_of(name)), 1e-6, 1e-8))
        << name << ", " << name_of(name);
  }
}

} // namespace argosy::testing
