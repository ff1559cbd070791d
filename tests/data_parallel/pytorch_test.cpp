// Data parallel training against PyTorch, which gets the weights and batches in
// a file, and has the whole batch in one process.

#include <gtest/gtest.h>

#include <sstream>

#include "argosy/common/file.h"
#include "argosy/data_parallel/data_parallel.h"
#include "argosy/optim/adam.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/world/world.h"
#include "examples/01_fashion_mnist/net.h"
#include "tests/support/command.h"
#include "tests/support/oracle_models.h"

namespace argosy {
namespace {

constexpr long kSteps = 5;
constexpr long kRows = 8; // of all ranks together

// Of all steps: [steps, rows, ...].
struct Batches {
  at::Tensor inputs;
  at::Tensor targets;
};

Batches make_batches(at::IntArrayRef shape, long targets, long classes) {
  std::vector<std::int64_t> all{kSteps, kRows};
  all.insert(all.end(), shape.begin(), shape.end());
  return {
      testing::numbers(all, 1),
      ((testing::numbers({kSteps, kRows, targets}, 2) + 1) * 5000)
          .to(torch::kLong)
          .remainder(classes)};
}

void set_weights(torch::nn::Module& net) {
  const torch::NoGradGuard no_grad;
  net.to(torch::kDouble);
  long seed = 0;
  for (at::Tensor& param : net.parameters()) {
    param.copy_(testing::numbers(param.sizes(), ++seed) / 5);
  }
}

// A dict that Python's torch.load() reads.
void save(
    const torch::nn::Module& net,
    const Batches& batches,
    const std::string& path) {
  c10::Dict<std::string, at::Tensor> tensors;
  for (const auto& item : net.named_parameters()) {
    tensors.insert("weight:" + item.key(), item.value().detach());
  }
  tensors.insert("inputs", batches.inputs);
  tensors.insert("targets", batches.targets);
  const std::vector<char> bytes = torch::pickle_save(tensors);
  write_file(path, std::string(bytes.begin(), bytes.end()));
}

std::vector<double> pytorch_losses(
    const std::string& model, const std::string& path) {
  const auto result = testing::run_command(
      "/usr/bin/python3 " ARGOSY_SOURCE_DIR
      "/tests/data_parallel/pytorch_losses.py " +
      model + " " + path);
  EXPECT_TRUE(result.status.success()) << result.output;
  std::istringstream lines(result.output);
  return {
      std::istream_iterator<double>(lines), std::istream_iterator<double>()};
}

// The mean over the ranks of the loss of each step.
template <typename Net>
at::Tensor train(Net net, const Batches& batches, const World& world) {
  DataParallel model(net);
  optim::Adam optimizer(net->parameters(), optim::AdamOptions(1e-3));
  at::Tensor losses = torch::zeros({kSteps}, torch::kDouble);
  for (long step = 0; step < kSteps; ++step) {
    const auto part = testing::part_of(
        {batches.inputs[step], batches.targets[step]},
        world.rank(),
        world.size());
    model.zero_grad();
    const auto loss = testing::loss_of(model(part.x), part.target);
    loss.backward();
    optimizer.step();
    losses[step] = loss.item();
  }
  all_reduce(losses, ReduceOp::AVG);
  return losses;
}

template <typename Net>
void expect_same_losses(
    const std::string& name, Net net, const Batches& batches, World& world) {
  set_weights(*net);
  const TempDir folder("pytorch_test");
  const std::string path = folder.path() / "tensors";
  save(*net, batches, path);
  const at::Tensor ours = train(net, batches, world);
  if (world.rank() == 0) {
    const at::Tensor theirs =
        torch::tensor(pytorch_losses(name, path), torch::kDouble);
    EXPECT_TRUE(torch::allclose(ours, theirs, 1e-9, 0))
        << ours << "\nand PyTorch's\n"
        << theirs;
  }
  barrier();
}

TEST(PyTorch, MlpHasTheSameLosses) {
  testing::run_process_ranks(2, [](World& world) {
    namespace nn = torch::nn;
    const nn::Sequential net(
        nn::Linear(16, 16),
        nn::ReLU(),
        nn::Linear(16, 16),
        nn::ReLU(),
        nn::Linear(16, 16),
        nn::ReLU(),
        nn::Linear(16, 10));
    expect_same_losses("mlp", net, make_batches({16}, 1, 10), world);
  });
}

TEST(PyTorch, CnnHasTheSameLosses) {
  testing::run_process_ranks(2, [](World& world) {
    expect_same_losses(
        "cnn", make_net(), make_batches({1, 28, 28}, 1, 10), world);
  });
}

TEST(PyTorch, GptHasTheSameLosses) {
  testing::run_process_ranks(2, [](World& world) {
    Batches batches = make_batches({8}, 8, 13);
    batches.inputs = batches.targets.roll(1, -1);
    expect_same_losses("gpt", Gpt(testing::small_gpt()), batches, world);
  });
}

} // namespace
} // namespace argosy
