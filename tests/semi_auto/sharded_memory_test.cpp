// What training keeps on each rank, in bytes that were allocated: when all is
// sharded, a part of what one process keeps.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>

#include "argosy/dtensor/deferred_init.h"
#include "argosy/observe/tensor_memory.h"
#include "argosy/optim/adam.h"
#include "argosy/semi_auto/parallelize.h"
#include "argosy/testing/ranks.h"
#include "examples/02_gpt/gpt.h"

namespace argosy {
namespace {

constexpr int kRanks = 4;

Gpt deferred_gpt() {
  const DeferredInit deferred;
  return Gpt(GptOptions{.width = 64, .layers = 2});
}

struct Sizes {
  std::int64_t all = 0; // of the parameters, in bytes
  std::int64_t largest = 0;
};

Sizes sizes_of(const torch::nn::Module& module) {
  Sizes sizes;
  for (const at::Tensor& each : module.parameters()) {
    const std::int64_t bytes = each.numel() * 4;
    sizes.all += bytes;
    sizes.largest = std::max(sizes.largest, bytes);
  }
  return sizes;
}

void backward(Gpt& gpt, const ProcessMesh& mesh) {
  const at::Tensor text = shard_tensor(
      torch::arange(8 * 16).remainder(251).view({8, 16}), mesh, {Shard(0)});
  const at::Tensor scores = gpt->forward(text);
  torch::cross_entropy_loss(scores.view({-1, scores.size(-1)}), text.view({-1}))
      .backward();
}

// A parameter, its gradient and two moments are 4 floats.
TEST(ShardedMemoryRanks, EachKeepsItsPart) {
  testing::run_ranks(kRanks, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({kRanks}, {"dp"});
    TensorMemory meter;
    const std::int64_t before = meter.current();
    meter.reset_peak();
    Gpt gpt = deferred_gpt();
    const Sizes sizes = sizes_of(*gpt);
    optim::AdamW adam(gpt->parameters());
    ShardOptimizer optimizer = parallelize(
        *gpt,
        adam,
        mesh,
        {.dp_config = ParallelizeConfig::Dp{.sharding_level = 3}});
    EXPECT_LE(meter.peak() - before, sizes.all / kRanks + sizes.largest);
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      backward(gpt, mesh);
      optimizer.step();
    }
    const auto kept = static_cast<double>(meter.current() - before);
    const double part = 4.0 * static_cast<double>(sizes.all) / kRanks;
    EXPECT_GE(kept, part);
    EXPECT_LE(kept, 1.02 * part);
  });
}

} // namespace
} // namespace argosy
