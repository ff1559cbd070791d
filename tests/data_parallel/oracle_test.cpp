// Data parallel training against one process with the whole batch: losses,
// gradients, parameters, and what is communicated.

#include <gtest/gtest.h>

#include "argosy/comm/traffic.h"
#include "argosy/data_parallel/data_parallel.h"
#include "argosy/data_parallel/sync_batch_norm.h"
#include "argosy/optim/adam.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/oracle_models.h"

namespace argosy {
namespace {

using testing::Batch;
using testing::OracleModel;
using torch::nn::AnyModule;

constexpr int kSteps = 10;
constexpr long kRows = 12; // of all ranks together

// Of a batch norm with 4 channels in a step: sums and the number of rows, then
// squares, each forward and backward.
constexpr std::size_t kNormCalls = 4;
constexpr std::size_t kNormBytes = 2 * (5 + 4) * sizeof(double);

std::map<std::string, DataParallelOptions> bucket_plans() {
  using Mode = data_parallel::Fusion::Mode;
  return {
      {"default", {}},
      {"size", {.comm_buffer_size = 0.002, .last_comm_buffer_size = 0.0005}},
      {"none", {.fusion = Mode::None}},
      {"index", {.fusion = Mode::Index, .fusion_starts = {2, 3}}},
      {"auto", {.fusion = Mode::Auto}}};
}

// What a training run leaves.
struct Outcome {
  std::vector<double> losses;
  AnyModule net;
};

template <typename Model, typename Optimizer>
double train_step(Model& model, Optimizer& optimizer, const Batch& batch) {
  for (auto& group : optimizer.param_groups()) {
    for (auto& param : group.params()) {
      param.mutable_grad() = at::Tensor();
    }
  }
  const at::Tensor loss =
      testing::loss_of(model.forward(batch.x), batch.target);
  loss.backward();
  optimizer.step();
  return loss.template item<double>();
}

Outcome train_alone(const OracleModel& of) {
  Outcome outcome{.net = of.make_with_weights()};
  torch::optim::Adam optimizer(outcome.net.ptr()->parameters(), 1e-2);
  for (int step = 0; step < kSteps; ++step) {
    outcome.losses.push_back(
        train_step(outcome.net, optimizer, of.batch(kRows, step)));
  }
  return outcome;
}

void expect_close(const at::Tensor& a, const at::Tensor& b) {
  EXPECT_LT((a - b).abs().max().item<double>(), 1e-9);
}

void expect_same_state(
    const torch::nn::Module& net, const torch::nn::Module& alone) {
  for (const auto& item : alone.named_parameters()) {
    SCOPED_TRACE(item.key());
    const at::Tensor param = net.named_parameters()[item.key()];
    expect_close(param, item.value());
    expect_close(param.grad(), item.value().grad());
  }
  for (const auto& item : alone.named_buffers()) {
    SCOPED_TRACE(item.key());
    expect_close(net.named_buffers()[item.key()], item.value());
  }
}

std::size_t bytes_of(const data_parallel::BucketPlan& plan) {
  std::size_t bytes = 0;
  for (const auto& bucket : plan.buckets) {
    bytes += bucket.bytes();
  }
  return bytes;
}

// On one rank of several: trains on its part, and compares with `alone`.
void expect_equals(
    const Outcome& alone,
    const OracleModel& of,
    const DataParallelOptions& options,
    World& world) {
  AnyModule net = of.make_with_weights();
  const int num_norms = convert_sync_batchnorm(*net.ptr());
  DataParallel model(net, options);
  optim::Adam optimizer(net.ptr()->parameters(), optim::AdamOptions(1e-2));
  const auto traffic = [] {
    return get_group()->traffic().of(comm::OpKind::AllReduce);
  };
  comm::Traffic after_first{};
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    losses.push_back(train_step(
        model,
        optimizer,
        testing::part_of(of.batch(kRows, step), world.rank(), world.size())));
    after_first = step == 0 ? traffic() : after_first;
  }
  if (world.size() > 1) { // the first step plans the buckets
    EXPECT_EQ(
        traffic().calls - after_first.calls,
        (model.plan().buckets.size() + num_norms * kNormCalls) * (kSteps - 1));
    EXPECT_EQ(
        traffic().bytes - after_first.bytes,
        (bytes_of(model.plan()) + num_norms * kNormBytes) * (kSteps - 1));
  }
  at::Tensor mean = torch::tensor(losses, torch::kDouble);
  all_reduce(mean, ReduceOp::AVG);
  expect_close(mean, torch::tensor(alone.losses, torch::kDouble));
  expect_same_state(*net.ptr(), *alone.net.ptr());
}

class Oracle : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(
    Models, Oracle, ::testing::Values(0, 1, 2), [](const auto& of) {
      return testing::oracle_models()[of.param].name;
    });

TEST_P(Oracle, EqualsOneProcessWithTheWholeBatch) {
  const OracleModel of = testing::oracle_models()[GetParam()];
  const Outcome alone = train_alone(of);
  EXPECT_LT(alone.losses.back(), alone.losses.front());
  for (const int num_ranks : {1, 2, 3, 4}) {
    for (const auto& [name, options] : bucket_plans()) {
      SCOPED_TRACE(name + ", ranks: " + std::to_string(num_ranks));
      testing::run_ranks(num_ranks, [&, &plan = options](World& world) {
        expect_equals(alone, of, plan, world);
      });
    }
  }
}

TEST(OraclePlans, Differ) {
  const OracleModel of = testing::oracle_models().back();
  std::map<std::string, std::size_t> num_buckets;
  for (const auto& [name, options] : bucket_plans()) {
    testing::run_ranks(
        2, [&, &plan_name = name, &plan = options](World& world) {
          DataParallel model(of.make_with_weights(), plan);
          if (world.rank() == 0) {
            num_buckets[plan_name] = model.plan().buckets.size();
          }
        });
  }
  EXPECT_EQ(num_buckets["index"], 3u);
  EXPECT_EQ(num_buckets["none"], 28u);
  EXPECT_GT(num_buckets["size"], num_buckets["default"]);
}

} // namespace
} // namespace argosy
