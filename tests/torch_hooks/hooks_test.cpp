// Linking installs no hook; each is installed with its feature, and a hook that
// is switched off leaves LibTorch alone or makes its feature refuse.
//
// Hooks stay for the life of a process, so the tests named DISABLED_ run in
// processes of their own.

#include "argosy/torch_hooks/hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>

#include "argosy/common/text.h"
#include "argosy/data_parallel/sync_batch_norm.h"
#include "argosy/dtensor/deferred_init.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/dtensor/tensor/layer_hooks.h"
#include "argosy/heap/allocator.h"
#include "argosy/observe/tensor_memory.h"
#include "argosy/optim/autocast.h"
#include "argosy/recomputation/recompute.h"
#include "argosy/sharding/group_sharded.h"
#include "argosy/tensor_parallel/rng.h"
#include "argosy/testing/ranks.h"
#include "argosy/torch_hooks/openblas.h"
#include "tests/support/command.h"
#include "tests/support/refusal.h"

namespace argosy::torch_hooks {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::refusal;
using testing::run_ranks;

testing::CommandResult run_alone(
    const std::string& test, const std::string& off = "") {
  return testing::run_command(str_format(
      "ARGOSY_HOOKS_OFF={} {} --gtest_also_run_disabled_tests "
      "--gtest_filter=Alone.DISABLED_{}",
      off,
      std::filesystem::read_symlink("/proc/self/exe").string(),
      test));
}

std::string names_of_all() {
  std::vector<std::string> names;
  for (const Hook hook : all_hooks()) {
    names.emplace_back(to_string(hook));
  }
  return join(names, ",");
}

// The features, each of which needs one hook.

at::Tensor square(const at::Tensor& x) {
  return x * x;
}

void recompute_once() {
  const at::Tensor x = torch::ones({4}, torch::requires_grad());
  recompute(square, x).sum().backward();
}

void draw_from_a_stream() {
  RngStatesTracker tracker;
  tracker.add("stream", 1);
  const auto scope = tracker.rng_state("stream");
  torch::rand({4});
}

ProcessMesh own_mesh() {
  return ProcessMesh({1}, {0}, {"self"});
}

void shard() {
  shard_tensor(torch::ones({4}), own_mesh(), {Replicate()});
}

void give_layer_hooks() {
  dtensor::set_hooks(
      shard_tensor(torch::ones({4}), own_mesh(), {Replicate()}),
      std::make_shared<dtensor::LayerHooks>());
}

void defer() {
  const DeferredInit deferred;
}

void shard_parameters() {
  sharding::ShardedModel<torch::nn::Linear> model(
      torch::nn::Linear(4, 4), sharding::Level::p_g_os, {.keep_memory = false});
}

void convert_batch_norm() {
  convert_sync_batchnorm(*torch::nn::BatchNorm1d(4));
}

void meter() {
  const TensorMemory memory;
}

void autocast() {
  const optim::AutoCast low;
}

TEST(Alone, DISABLED_NothingByLinking) {
  torch::nn::Linear linear(4, 4);
  linear(torch::ones({4, 4})).sum().backward();
  EXPECT_EQ(installed(), std::vector<std::string>());
}

void expect_installs(const char* name, void (*feature)()) {
  EXPECT_THAT(installed(), Not(Contains(name)));
  feature();
  EXPECT_THAT(installed(), Contains(name));
  feature(); // again
}

TEST(Alone, DISABLED_EachWithItsFeature) {
  expect_installs("saved_tensors", &recompute_once);
  expect_installs("intercept", &draw_from_a_stream);
  EXPECT_EQ(installed().size(), 2u);
  const bool has_better_core =
      !better_openblas_core(openblas_core(), simd::highest_isa(), {}).empty();
  run_ranks(1, [](World&) {
    expect_installs("dtensor", &shard);
    expect_installs("layer_hooks", &give_layer_hooks);
    expect_installs("deferred_init", &defer);
    expect_installs("batch_norm", &convert_batch_norm);
    torch::conv2d(torch::ones({1, 4, 8, 8}), torch::ones({4, 4, 3, 3}));
    expect_installs("save", &shard_parameters);
  });
  const auto now = installed();
  EXPECT_EQ(
      std::count(now.begin(), now.end(), "openblas"), has_better_core ? 1 : 0);
  // Where oneDNN needs it, "amx" came with the ranks, before the convolution.
  autocast();
  EXPECT_THAT(installed(), Not(Contains("malloc")));
  expect_installs("allocator", &keep_tensor_memory);
  EXPECT_THAT(installed(), Contains("malloc"));
  expect_installs("tensor_meter", &meter);
}

void expect_refuses(const std::string& name, void (*feature)()) {
  EXPECT_THAT(
      refusal(feature),
      HasSubstr("needs the hook '" + name + "', which ARGOSY_HOOKS_OFF"));
}

TEST(Alone, DISABLED_AllSwitchedOff) {
  expect_refuses("saved_tensors", &recompute_once);
  expect_refuses("intercept", &draw_from_a_stream);
  run_ranks(1, [](World&) {
    expect_refuses("dtensor", &shard);
    expect_refuses("dtensor", &defer);
    expect_refuses("batch_norm", &convert_batch_norm);
  });
  expect_refuses("tensor_meter", &meter);
  autocast();
  keep_tensor_memory();
  EXPECT_FALSE(share_tensor_memory());
  EXPECT_EQ(installed(), std::vector<std::string>());
}

TEST(Alone, DISABLED_SomeSwitchedOff) {
  run_ranks(1, [](World&) {
    shard();
    expect_refuses("layer_hooks", &give_layer_hooks);
    expect_refuses("deferred_init", &defer);
    EXPECT_TRUE(torch::rand({4}).defined()) << "nothing is deferred";
  });
  EXPECT_THAT(installed(), Contains("dtensor"));
}

TEST(Alone, DISABLED_UnknownName) {
  EXPECT_THAT(
      refusal(&recompute_once),
      HasSubstr("ARGOSY_HOOKS_OFF names 'dtensors', expected some of "
                "allocator, amx, "));
}

class TorchHooks
    : public ::testing::TestWithParam<std::pair<const char*, std::string>> {};

TEST_P(TorchHooks, In) {
  const auto& [test, off] = GetParam();
  const auto result = run_alone(test, off);
  EXPECT_TRUE(result.status.success()) << result.output;
  EXPECT_THAT(result.output, HasSubstr("[  PASSED  ] 1 test."));
}

INSTANTIATE_TEST_SUITE_P(
    ProcessesOfTheirOwn,
    TorchHooks,
    ::testing::Values(
        std::pair("NothingByLinking", std::string()),
        std::pair("EachWithItsFeature", std::string()),
        std::pair("AllSwitchedOff", names_of_all()),
        std::pair("SomeSwitchedOff", std::string("layer_hooks,deferred_init")),
        std::pair("UnknownName", std::string("dtensors"))));

} // namespace
} // namespace argosy::torch_hooks
