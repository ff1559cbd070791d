// Optimizers whose states are in a tier: the same bits as in memory.

#include "argosy/offload/states.h"

#include <gtest/gtest.h>
#include <torch/serialize.h>
#include <torch/types.h>

#include <sstream>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/observe/tensor_memory.h"
#include "argosy/optim/adagrad.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/lamb.h"
#include "argosy/optim/lars.h"
#include "argosy/optim/sgd.h"
#include "argosy/optim/stored_states.h"
#include "tests/optim/param_sets.h"

namespace argosy::offload {
namespace {

using optim::AdamOptions;
using optim::AdamWOptions;
using optim::make_params;
using optim::ParamGroups;
using optim::set_grads;
using optim::SGDOptions;
using optim::StatePlace;
using optim::Tensors;

constexpr std::int64_t kMegabyte = 1 << 20;

TEST(StateLayout, BuffersOfNeighboursInOneGroup) {
  const auto layout = optim::lay_out_states(
      {{{10, 4, 2}, {16, 4, 2}, {100, 4, 2}, {1, 4, 2}}, {{1, 8, 3}}}, 256);
  EXPECT_EQ(
      layout.places[0],
      (std::vector<StatePlace>{
          {0, 0, 64}, {0, 128, 64}, {1, 0, 448}, {2, 0, 64}}));
  EXPECT_EQ(layout.places[1], (std::vector<StatePlace>{{3, 0, 64}}));
  EXPECT_EQ(
      layout.buffer_bytes, (std::vector<std::int64_t>{256, 896, 128, 192}));
}

ParamGroups two_groups(const Tensors& params) {
  const auto middle = params.begin() + 4;
  return {
      ParamGroups::Group(Tensors(params.begin(), middle)),
      ParamGroups::Group(Tensors(middle, params.end()))};
}

void expect_equal(const Tensors& a, const Tensors& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(torch::equal(a[i], b[i])) << "parameter " << i;
  }
}

void expect_equal(const optim::StateDict& a, const optim::StateDict& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    EXPECT_TRUE(torch::equal(tensor, b.at(name))) << name;
  }
}

template <typename Optimizer, typename Options>
void check_bits(
    const Options& options, c10::ScalarType type, OffloadOptions where) {
  const TempDir dir;
  where.offload_path = dir.path().string();
  const Tensors plain_params = make_params(type);
  const Tensors params = make_params(type);
  Optimizer plain(two_groups(plain_params), options);
  Optimizer offloaded(two_groups(params), options);
  const auto states = offload_states(offloaded, where, 4096);
  for (int step = 0; step < 6; ++step) {
    set_grads(plain_params, step);
    set_grads(params, step);
    plain.step();
    offloaded.step();
  }
  expect_equal(params, plain_params);
  expect_equal(offloaded.state_dict(), plain.state_dict());
}

template <typename Optimizer, typename Options>
void check_bits(const Options& options) {
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kBFloat16}) {
    check_bits<Optimizer>(options, type, {});
  }
  check_bits<Optimizer>(options, torch::kFloat, {.io = OffloadIo::Mapped});
  check_bits<Optimizer>(
      options, torch::kHalf, {.io = OffloadIo::Threads, .checksum = true});
  for (const std::int64_t budget : {100'000L, 100'000'000L}) {
    check_bits<Optimizer>(
        options, torch::kBFloat16, {.offload_cpu_size = budget});
  }
}

TEST(OffloadedStates, StepsGiveTheSameBits) {
  check_bits<optim::Adam>(AdamOptions(0.01));
  check_bits<optim::AdamW>(AdamWOptions(0.01).amsgrad(true));
  check_bits<optim::SGD>(SGDOptions(0.1).momentum(0.9));
  check_bits<optim::SGD>(SGDOptions(0.1)); // masters at most
  check_bits<optim::Adagrad>(optim::AdagradOptions(0.1));
  check_bits<optim::Lamb>(optim::LambOptions(0.01));
  check_bits<optim::Lars>(optim::LarsOptions(0.1));
}

void run_steps(
    optim::FusedOptimizer& optimizer, const Tensors& params, int from, int to) {
  for (int step = from; step < to; ++step) {
    set_grads(params, step);
    optimizer.step();
  }
}

// Between memory and the store, in the middle of training.
TEST(OffloadedStates, MoveAndAreSaved) {
  const TempDir dir;
  const OffloadOptions where{.offload_path = dir.path().string()};
  const Tensors plain_params = make_params();
  optim::AdamW plain(plain_params);
  run_steps(plain, plain_params, 0, 6);

  const Tensors params = make_params();
  optim::AdamW moving(params);
  run_steps(moving, params, 0, 2);
  offload_states(moving, where);
  run_steps(moving, params, 2, 3);
  offload_states(moving, where, 4096); // in other buffers
  run_steps(moving, params, 3, 4);
  moving.set_state_store(nullptr);
  run_steps(moving, params, 4, 5);
  offload_states(moving, where);
  run_steps(moving, params, 5, 6);
  expect_equal(params, plain_params);

  std::stringstream saved;
  torch::save(moving, saved);
  const Tensors others = make_params();
  optim::AdamW loaded(others);
  offload_states(loaded, where);
  torch::load(loaded, saved);
  for (std::size_t i = 0; i < params.size(); ++i) {
    others[i].data().copy_(params[i].data());
  }
  run_steps(loaded, others, 6, 8);
  run_steps(plain, plain_params, 6, 8);
  expect_equal(others, plain_params);

  moving.load_state_dict(loaded.state_dict());
  expect_equal(moving.state_dict(), plain.state_dict());
}

// A parameter that comes later makes new buffers; what was there stays.
TEST(OffloadedStates, ParametersMayBeAdded) {
  const TempDir dir;
  const Tensors plain_params = make_params();
  const Tensors params = make_params();
  const auto train = [&](const Tensors& all, bool offloads) {
    optim::AdamW optimizer(Tensors(all.begin(), all.begin() + 5));
    if (offloads) {
      offload_states(optimizer, {.offload_path = dir.path().string()}, 4096);
    }
    run_steps(optimizer, all, 0, 2);
    optimizer.add_param_group(
        ParamGroups::Group(Tensors(all.begin() + 5, all.end())));
    run_steps(optimizer, all, 2, 4);
  };
  train(plain_params, false);
  train(params, true);
  expect_equal(params, plain_params);
}

// 8 MB of states, in buffers of 1 MB.
TEST(OffloadedStates, MemoryStaysWithinTheBudget) {
  for (const std::int64_t budget : {0L, 3 * kMegabyte}) {
    const TempDir dir;
    const at::Tensor flat = torch::ones({kMegabyte});
    const at::Tensor grad = torch::ones({kMegabyte});
    TensorMemory meter;
    const std::int64_t before = meter.current();
    meter.reset_peak();
    optim::AdamW adam(pieces_of(flat, grad, kMegabyte / 16));
    const auto states = offload_states(
        adam,
        {.offload_path = dir.path().string(), .offload_cpu_size = budget},
        kMegabyte);
    for (int step = 0; step < 3; ++step) {
      adam.step();
    }
    EXPECT_LE(meter.peak() - before, budget + 3 * kMegabyte + 100'000);
    EXPECT_EQ(states->stats().file, 8 * kMegabyte - budget);
  }
}

TEST(OffloadedStates, FlatShardsAreUpdatedInPlace) {
  const TempDir dir;
  const at::Tensor expected = torch::linspace(-1, 1, 10'001);
  const at::Tensor grad = torch::linspace(1, 3, 10'001);
  const at::Tensor shard = expected.clone();
  expected.mutable_grad() = grad.clone();
  optim::AdamW plain(Tensors{expected});
  optim::AdamW offloaded(pieces_of(shard, grad, 1000));
  offload_states(offloaded, {.offload_path = dir.path().string()}, 20'000);
  for (int step = 0; step < 3; ++step) {
    plain.step();
    offloaded.step();
    grad.mul_(0.5);
    expected.mutable_grad().mul_(0.5);
  }
  EXPECT_TRUE(torch::equal(shard, expected));
  EXPECT_THROW(pieces_of(shard, grad.slice(0, 1), 1000), InvalidArgument);
  EXPECT_THROW(pieces_of(shard, grad, 0), InvalidArgument);
}

} // namespace
} // namespace argosy::offload
