// The GPT of hand-written parallel layers, the same one made parallel by plans
// on DTensors, and that of one process: all give the same numbers.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <numeric>

#include "argosy/dtensor/dtensor.h"
#include "argosy/dtensor/tensor/comm_debug.h"
#include "argosy/semi_auto/parallelize.h"
#include "argosy/tensor_parallel/nested_cuts.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "examples/05_hybrid/parallel_gpt.h"
#include "tests/support/oracle_models.h"
#include "tests/tensor_parallel/sent_bytes.h"

namespace argosy::testing {
namespace {

using examples::ParallelBlock;
using examples::ParallelGpt;
using examples::ParallelGptOptions;

constexpr int kSteps = 3;

// 13 words and 8 tokens divide by no 3.
GptOptions gpt_options() {
  return {.vocab = 13, .context = 8, .width = 24, .layers = 2, .heads = 12};
}

struct Trained {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> gradients; // of the first step
  std::map<std::string, at::Tensor> parameters;
};

Gpt make_gpt() {
  Gpt gpt(gpt_options());
  set_weights(*gpt);
  return gpt;
}

at::Tensor tokens_of(long step) {
  return ((numbers({4, 8}, step) + 1) * 5000).to(torch::kLong).remainder(13);
}

using Loss = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;
using Whole = std::function<at::Tensor(const at::Tensor& parameter)>;

Trained train(
    torch::nn::Module& model,
    const Loss& loss_of_batch,
    const Whole& whole,
    const Whole& whole_gradient) {
  Trained trained;
  torch::optim::Adam adam(model.parameters(), 0.01);
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor loss =
        loss_of_batch(tokens_of(step), tokens_of(step + 40));
    loss.backward();
    trained.losses.push_back(full_tensor(loss.detach()).item<double>());
    for (const auto& item : model.named_parameters()) {
      if (step == 0) {
        trained.gradients[item.key()] = whole_gradient(item.value()).clone();
      }
    }
    adam.step();
    adam.zero_grad();
  }
  for (const auto& item : model.named_parameters()) {
    trained.parameters[item.key()] = whole(item.value()).clone();
  }
  return trained;
}

Trained train_plain() {
  Gpt gpt = make_gpt();
  return train(
      *gpt,
      [&](const at::Tensor& text, const at::Tensor& target) {
        return loss_of(gpt(text), target);
      },
      [](const at::Tensor& parameter) { return parameter.detach(); },
      [](const at::Tensor& parameter) { return parameter.grad(); });
}

// The gradient of a part is gathered as the part is.
at::Tensor full_gradient(const at::Tensor& parameter) {
  const at::Tensor gradient = parameter.grad().detach();
  if (const auto* cuts = tensor_parallel::find_cuts(parameter)) {
    return tensor_parallel::gathered(gradient, *cuts);
  }
  set_marks(gradient, marks_of(parameter));
  return tensor_parallel::full_parameter(gradient);
}

Trained train_by_hand(const ParallelGptOptions& options) {
  ParallelGpt gpt(options);
  gpt->to(torch::kDouble);
  tensor_parallel::load_module(*gpt, *make_gpt());
  const auto hooks = register_sequence_parallel_allreduce_hooks(*gpt, 1, true);
  return train(
      *gpt,
      [&](const at::Tensor& text, const at::Tensor& target) {
        return gpt->loss(text, target);
      },
      [](const at::Tensor& parameter) {
        return tensor_parallel::full_parameter(parameter);
      },
      full_gradient);
}

Trained train_by_plan(bool sequence_parallel, const ProcessMesh& mesh) {
  ParallelizeConfig::Mp mp{
      {{R"(blocks\..*\.(qkv|up))", ColWiseParallel()},
       {R"(blocks\..*\.(out|down))", RowWiseParallel()}}};
  if (sequence_parallel) {
    mp.parallelize_plan.emplace_back("tokens", SequenceParallelBegin());
    mp.parallelize_plan.emplace_back("norm", SequenceParallelEnd());
  }
  Gpt gpt = make_gpt();
  parallelize(*gpt, mesh, {.mp_config = mp});
  return train(
      *gpt,
      [&](const at::Tensor& text, const at::Tensor& target) {
        const Placements all{Replicate()};
        return loss_of(
            gpt(shard_tensor(text, mesh, all)),
            shard_tensor(target, mesh, all));
      },
      [](const at::Tensor& parameter) {
        return full_tensor(parameter.detach());
      },
      [](const at::Tensor& parameter) {
        return full_tensor(parameter.grad());
      });
}

void expect_same(
    const std::map<std::string, at::Tensor>& got,
    const std::map<std::string, at::Tensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, value] : expected) {
    EXPECT_TRUE(torch::allclose(got.at(name), value, 1e-7, 1e-9)) << name;
  }
}

void expect_same(const Trained& got, const Trained& expected) {
  for (int step = 0; step < kSteps; ++step) {
    const auto i = static_cast<std::size_t>(step);
    EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-10) << step;
  }
  expect_same(got.gradients, expected.gradients);
  expect_same(got.parameters, expected.parameters);
}

class ParallelGptRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(
    Ranks, ParallelGptRanks, ::testing::Values(1, 2, 3, 4));

TEST_P(ParallelGptRanks, HandWrittenLayersTrainAsOneProcess) {
  const Trained expected = train_plain();
  run_ranks(GetParam(), [&](World&) {
    const auto group = get_group(0);
    expect_same(train_by_hand({gpt_options(), group}), expected);
    expect_same(train_by_hand({gpt_options(), group, true}), expected);
    expect_same(train_by_hand({gpt_options(), group, true, true}), expected);
  });
}

// Two and three dimensions, also of different lengths, and where one axis has
// one rank.
TEST(ParallelGptGrid, TrainsAsOneProcess) {
  const Trained expected = train_plain();
  const std::vector<std::vector<std::int64_t>> grids{
      {1, 1}, {2, 2}, {3, 2}, {1, 4}, {4, 1}, {2, 2, 1}, {1, 2, 2}, {2, 2, 2}};
  for (const auto& grid : grids) {
    SCOPED_TRACE(::testing::PrintToString(grid));
    const auto ranks = std::accumulate(
        grid.begin(), grid.end(), std::int64_t{1}, std::multiplies<>());
    run_ranks(static_cast<int>(ranks), [&](World&) {
      ParallelGptOptions options{gpt_options(), get_group(0)};
      options.grid = grid;
      expect_same(train_by_hand(options), expected);
    });
  }
}

TEST_P(ParallelGptRanks, PlansOnDTensorsGiveTheSameNumbers) {
  run_ranks(GetParam(), [&](World& world) {
    for (const bool sequence_parallel : {false, true}) {
      expect_same(
          train_by_hand({gpt_options(), get_group(0), sequence_parallel}),
          train_by_plan(
              sequence_parallel,
              ProcessMesh::of_shape({world.size()}, {"mp"})));
    }
  });
}

TEST(ParallelGptProcesses, TrainAsOneProcess) {
  run_process_ranks(2, [](World&) {
    const Trained expected = train_plain();
    expect_same(train_by_hand({gpt_options(), get_group(0)}), expected);
    expect_same(train_by_hand({gpt_options(), get_group(0), true}), expected);
  });
}

// Groups of the tensor parallel ranks of a larger world.
TEST(ParallelGptGroups, TrainAsOneProcess) {
  const Trained expected = train_plain();
  run_ranks(4, [&](World& world) {
    const auto even = new_group({0, 2});
    const auto odd = new_group({1, 3});
    ParallelGptOptions options{
        gpt_options(), world.rank() % 2 == 0 ? even : odd};
    ParallelGpt gpt(options);
    gpt->to(torch::kDouble);
    tensor_parallel::load_module(*gpt, *make_gpt(), options.group);
    torch::optim::Adam adam(gpt->parameters(), 0.01);
    for (int step = 0; step < kSteps; ++step) {
      const at::Tensor loss = gpt->loss(tokens_of(step), tokens_of(step + 40));
      EXPECT_NEAR(
          loss.item<double>(),
          expected.losses[static_cast<std::size_t>(step)],
          1e-10);
      adam.zero_grad();
      loss.backward();
      adam.step();
    }
  });
}

using Counts = std::map<std::string, std::size_t>;

Counts counts_of(const CommDebug& debug) {
  Counts counts;
  for (const auto& entry : debug.entries()) {
    ++counts[entry.collective];
  }
  return counts;
}

// A block costs two all_reduces of the activation each way; with the sequence
// cut, an all_gather and a reduce_scatter in place of each.
TEST(ParallelGptComm, ABlockSendsWhatTheoryAsksFor) {
  run_ranks(2, [](World&) {
    const std::uint64_t whole = 4 * 8 * 24 * sizeof(float);
    const at::Tensor ahead = torch::ones({8, 8}, torch::kBool).triu(1);
    for (const bool sequence_parallel : {false, true}) {
      ParallelBlock block(
          ParallelGptOptions{gpt_options(), get_group(0), sequence_parallel});
      const at::Tensor x =
          torch::ones({4, sequence_parallel ? 4 : 8, 24}).requires_grad_();
      const Counts each_way = sequence_parallel
          ? Counts{{"all_gather", 2}, {"reduce_scatter", 2}}
          : Counts{{"all_reduce", 2}};
      CommDebug debug;
      const at::Tensor y = block->forward(x, ahead);
      EXPECT_EQ(counts_of(debug), each_way);
      for (const auto& entry : debug.entries()) {
        EXPECT_EQ(entry.bytes, whole) << entry.collective;
      }
      debug.clear();
      y.sum().backward();
      EXPECT_EQ(counts_of(debug), each_way);
      for (const auto& entry : debug.entries()) {
        EXPECT_EQ(entry.bytes, whole) << entry.collective;
      }
    }
  });
}

// 12(x - 1) + 4(y - 1) activations over n, and in each norm two sums of a
// number per token.
TEST(ParallelGptComm, ABlockOnAGridSendsWhatTheoryAsksFor) {
  run_ranks(4, [](World&) {
    const double activation = 4 * 8 * 24 * sizeof(float);
    const at::Tensor ahead = torch::ones({8, 8}, torch::kBool).triu(1);
    for (const long x : {1, 2, 4}) {
      ParallelGptOptions options{gpt_options(), get_group(0)};
      options.grid = {x, 4 / x};
      ParallelBlock block(options);
      const at::Tensor part =
          options.tensor_grid().part(torch::ones({4, 8, 24}));
      CommDebug debug;
      block->forward(part, ahead);
      const auto sent = sent_bytes(debug);
      const double y = 4.0 / static_cast<double>(x);
      const double units = 12.0 * static_cast<double>(x - 1) + 4 * (y - 1);
      const double norms = 2 * 2 * 4 * 8 * sizeof(float) * 2 * 3 / 4.0;
      EXPECT_DOUBLE_EQ(sent.at("all_reduce"), norms);
      EXPECT_DOUBLE_EQ(total(sent), units / 4 * activation + norms) << x;
    }
  });
}

} // namespace
} // namespace argosy::testing
