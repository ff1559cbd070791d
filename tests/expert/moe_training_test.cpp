// Training with experts on several ranks against one process: data parallel
// steps, clipping, parameters after them.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/comm/traffic.h"
#include "argosy/common/error.h"
#include "argosy/data_parallel/data_parallel.h"
#include "argosy/expert/clip.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/gradients.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "argosy/training/parameter_marks.h"
#include "tests/expert/dense_moe.h"
#include "tests/support/numbers.h"

namespace argosy {
namespace {

using argosy::comm::OpKind;
using argosy::testing::alone;
using argosy::testing::numbers;
using argosy::testing::run_ranks;

constexpr long kWidth = 6;
constexpr long kExperts = 4;
constexpr double kMaxNorm = 0.05; // small enough to clip

// A layer of experts between two that all ranks have alike.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(const GroupPtr& group)
      : first(register_module("first", torch::nn::Linear(5, kWidth))),
        moe(register_module(
            "moe",
            MoELayer(MoELayerOptions(kWidth, kExperts)
                         .hidden(7)
                         .group(group)
                         .gate(DroplessGate(
                                   GateOptions(kWidth, kExperts).group(group))
                                   .ptr())))),
        last(register_module("last", torch::nn::Linear(kWidth, 3))) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor hidden = first(x).tanh();
    return last(hidden + moe(hidden));
  }

  torch::nn::Linear first;
  MoELayer moe;
  torch::nn::Linear last;
};
TORCH_MODULE(Net);

// The same on all ranks, and experts by their number.
Net make_net(const GroupPtr& group) {
  model_parallel_random_seed(7, {});
  Net net(group);
  net->to(torch::kDouble);
  const torch::NoGradGuard no_grad;
  for (const auto& layer : {net->first, net->last}) {
    layer->weight.copy_(numbers(layer->weight.sizes(), 1) / 2);
    layer->bias.copy_(numbers(layer->bias.sizes(), 2) / 2);
  }
  return net;
}

template <typename Model>
at::Tensor loss_of(Model& model, Net& net, long step, int rank) {
  const at::Tensor y = model(numbers({7, 5}, step * 31 + rank));
  const at::Tensor target = numbers({7, 3}, step * 17 + rank + 5);
  return (y - target).pow(2).mean() + net->moe->get_loss() * 0.05;
}

// One process: the mean over the ranks' batches.
struct Alone {
  Net net = make_net(alone());
  optim::Adam adam{net->parameters(), optim::AdamOptions(0.01)};

  double step(long number, int ranks) {
    adam.zero_grad();
    at::Tensor loss = torch::zeros({}, torch::kDouble);
    for (int rank = 0; rank < ranks; ++rank) {
      loss = loss + loss_of(net, net, number, rank) / ranks;
    }
    loss.backward();
    const double norm = optim::clip_grad_norm_(net->parameters(), kMaxNorm);
    adam.step();
    return norm;
  }
};

void expect_same(Net& own, Net& whole, const Group& group) {
  for (const auto& item : own->named_parameters()) {
    const at::Tensor expected = whole->named_parameters()[item.key()];
    const long n = kExperts / group.nranks();
    const auto part = [&](const at::Tensor& tensor) {
      return marks_of(item.value()).is_expert
          ? tensor.narrow(0, group.rank() * n, n)
          : tensor;
    };
    EXPECT_TRUE(
        torch::allclose(item.value(), part(expected), 1e-8, 1e-10) &&
        torch::allclose(
            item.value().grad(), part(expected.grad()), 1e-8, 1e-10))
        << item.key() << "\n"
        << item.value().grad() << part(expected.grad());
  }
}

// Experts over `expert`, the same experts over `replicas` (null: one rank).
void train(World& world, const GroupPtr& expert, const GroupPtr& replicas) {
  Alone whole;
  Net net = make_net(expert);
  DataParallel model(net, {.expert_group = replicas});
  optim::Adam adam(net->parameters(), optim::AdamOptions(0.01));
  for (long step = 0; step < 4; ++step) {
    model.zero_grad();
    loss_of(model, net, step, world.rank()).backward();
    const double norm = clip_grad_norm_moe(net->parameters(), kMaxNorm, expert);
    EXPECT_GT(norm, kMaxNorm);
    adam.step();
    EXPECT_NEAR(norm, whole.step(step, world.size()), 1e-9);
    expect_same(net, whole.net, *expert);
  }
}

class MoETraining : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, MoETraining, ::testing::Values(1, 2, 4));

TEST_P(MoETraining, EqualsOneProcess) {
  run_ranks(
      GetParam(), [](World& world) { train(world, get_group(0), nullptr); });
}

// Experts over {0, 1} and {2, 3}: two copies of each.
TEST(MoETrainingRanks, EqualOneProcessWithCopiesOfExperts) {
  run_ranks(4, [](World& world) {
    const int rank = world.rank();
    const auto group = [](int a, int b) {
      return shared_group(current_world(), {a, b});
    };
    train(
        world,
        group(rank / 2 * 2, rank / 2 * 2 + 1),
        group(rank % 2, rank % 2 + 2));
  });
}

TEST(MoETrainingProcesses, EqualOneProcess) {
  argosy::testing::run_process_ranks(
      2, [](World& world) { train(world, get_group(0), nullptr); });
}

// Of experts nothing is reduced over ranks that have others.
TEST(MoETrainingRanks, ReduceWhatIsNotOfExperts) {
  run_ranks(2, [](World& world) {
    Net net = make_net(get_group(0));
    DataParallel model(net);
    const auto step = [&](long number) {
      model.zero_grad();
      const auto before = get_group(0)->traffic().of(OpKind::AllReduce);
      loss_of(model, net, number, world.rank()).backward();
      return get_group(0)->traffic().of(OpKind::AllReduce).bytes - before.bytes;
    };
    step(0);
    std::size_t expected = 0;
    for (const auto& bucket : model.plan().buckets) {
      expected += bucket.bytes();
    }
    std::size_t of_experts = 0;
    for (const at::Tensor& each : net->moe->grouped->parameters()) {
      of_experts += each.nbytes();
    }
    EXPECT_LT(expected, of_experts);
    EXPECT_EQ(step(1), expected);
    EXPECT_THROW((void)model.join(), InvalidArgument);
    const auto local = model.no_sync();
    model.zero_grad();
    EXPECT_EQ(step(2), 0u);
    const at::Tensor once = net->moe->grouped->weight1.grad().clone();
    loss_of(model, net, 2, world.rank()).backward();
    EXPECT_TRUE(torch::allclose(net->moe->grouped->weight1.grad(), once * 2));
  });
}

} // namespace
} // namespace argosy
