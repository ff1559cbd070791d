// Backward in two halves of layers whose weights are spread over ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "argosy/comm/ops.h"
#include "argosy/dtensor/tensor/comm_debug.h"
#include "argosy/sharding/group_sharded.h"
#include "argosy/testing/ranks.h"
#include "argosy/torch_hooks/split_backward.h"
#include "argosy/world/world.h"
#include "examples/05_hybrid/parallel_gpt.h"
#include "tests/pipeline/backward_checks.h"
#include "tests/support/oracle_models.h"

namespace argosy::pipeline {
namespace {

using examples::ParallelBlock;
using examples::ParallelGptOptions;
using testing::run_ranks;

constexpr long kLength = 8;

ParallelGptOptions block_options(bool sequence_parallel, bool gather_again) {
  return {
      {.context = kLength, .width = 24, .heads = 4},
      get_group(0),
      sequence_parallel,
      gather_again};
}

Part block_part(const ParallelGptOptions& options) {
  ParallelBlock block(options);
  const long length =
      options.sequence_parallel ? kLength / options.group->nranks() : kLength;
  return {
      [block](const Tensors& in) mutable {
        const at::Tensor ahead =
            torch::ones({kLength, kLength}, torch::kBool).triu(1);
        return Tensors{block->forward(in[0], ahead)};
      },
      block->parameters(),
      {floats({3, length, 24}, 1)}};
}

TEST(SplitParallel, TensorParallelLayersEqualTheWhole) {
  for (const int num_ranks : {2, 4}) {
    run_ranks(num_ranks, [](World&) {
      expect_as_whole(block_part(block_options(false, false)));
      expect_as_whole(block_part(block_options(true, false)));
      expect_as_whole(block_part(block_options(true, true)));
    });
  }
}

using Counts = std::map<std::string, int>;

Counts counts_of(CommDebug& debug) {
  Counts counts;
  for (const auto& entry : debug.entries()) {
    ++counts[entry.collective];
  }
  debug.clear();
  return counts;
}

// All that the part before waits for is communicated in the first half; the
// second gathers only what was not kept.
TEST(SplitParallel, CommunicatesInTheFirstHalf) {
  run_ranks(2, [](World&) {
    const auto halves_of = [](bool sequence_parallel, bool gather_again) {
      const Part part =
          block_part(block_options(sequence_parallel, gather_again));
      const Microbatch microbatch = forward(part, 1);
      SplitBackward halves;
      CommDebug debug;
      halves.input(microbatch.outputs, microbatch.gradients, microbatch.inputs);
      const Counts first = counts_of(debug);
      halves.weight();
      return std::pair(first, counts_of(debug));
    };
    const Counts both{{"all_gather", 2}, {"reduce_scatter", 2}};
    EXPECT_EQ(
        halves_of(false, false),
        std::pair(Counts{{"all_reduce", 2}}, Counts{}));
    EXPECT_EQ(halves_of(true, false), std::pair(both, Counts{}));
    EXPECT_EQ(
        halves_of(true, true), std::pair(both, Counts{{"all_gather", 2}}));
  });
}

// The gradients of the inputs of three steps of two microbatches, and the
// parameters after that.
Tensors train(const std::string& level, const World& world, bool in_halves) {
  testing::Mlp net;
  testing::set_weights(*net);
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1));
  sharding::ShardingOptions options;
  options.buffer_max_size = 300;
  options.segment_size = 200;
  auto [model, optimizer, scaler] =
      sharding::group_sharded_parallel(net, sgd, level, std::nullopt, options);
  Tensors results;
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const at::Tensor gradient = testing::numbers({5, 3}, 30 + step);
    Tensors inputs;
    Tensors outputs;
    for (int i = 0; i < 2; ++i) {
      inputs.push_back(
          testing::numbers({5, 6}, 10 * step + 2 * i + world.rank())
              .requires_grad_());
      outputs.push_back(model.forward(inputs[i]));
    }
    std::vector<SplitBackward> halves(2);
    for (int i = 0; in_halves && i < 2; ++i) {
      results.push_back(
          halves[i].input({outputs[i]}, {gradient}, {inputs[i]})[0]);
    }
    for (int i = 0; i < 2; ++i) {
      model.core()->set_sync(i == 1);
      if (in_halves) {
        halves[i].weight();
      } else {
        outputs[i].backward(gradient);
        results.push_back(inputs[i].grad());
      }
    }
    optimizer.step();
  }
  const auto whole = model.whole();
  for (const at::Tensor& each : net->parameters()) {
    results.push_back(each.detach().clone());
  }
  return results;
}

TEST(SplitParallel, ShardedParametersEqualTheWhole) {
  for (const char* level : {"os", "os_g", "p_g_os"}) {
    SCOPED_TRACE(level);
    run_ranks(2, [&](World& world) {
      expect_equal(train(level, world, true), train(level, world, false));
    });
  }
}

} // namespace
} // namespace argosy::pipeline
