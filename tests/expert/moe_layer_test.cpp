// Layers of experts on several ranks against one process with all experts and
// all tokens.

#include "argosy/expert/moe_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/comm/shards.h"
#include "argosy/comm/traffic.h"
#include "argosy/common/error.h"
#include "argosy/expert/grouped_experts.h"
#include "argosy/optim/autocast.h"
#include "argosy/optim/lamb.h"
#include "argosy/tensor_parallel/layers.h"
#include "argosy/tensor_parallel/parameters.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "argosy/training/parameter_marks.h"
#include "argosy/world/world.h"
#include "tests/expert/compare_moe.h"
#include "tests/support/numbers.h"
#include "tests/support/refusal.h"

namespace argosy {
namespace {

using argosy::comm::OpKind;
using argosy::testing::alone;
using argosy::testing::check_pair;
using argosy::testing::expect_close;
using argosy::testing::GateMaker;
using argosy::testing::kNoneOnTheLast;
using argosy::testing::kWidth;
using argosy::testing::local_part;
using argosy::testing::loss_of;
using argosy::testing::make_pair;
using argosy::testing::numbers;
using argosy::testing::Pair;
using argosy::testing::PairCheck;
using argosy::testing::run_ranks;
using argosy::testing::tokens_of;

constexpr long kExperts = 12;

GateOptions gate_options(const GroupPtr& group) {
  return GateOptions(kWidth, kExperts)
      .random_routing(false)
      .noise(0)
      .group(group);
}

MoELayerOptions layer_options() {
  return MoELayerOptions(kWidth, kExperts).hidden(10);
}

const GateMaker kNaive = [](const GroupPtr& group) {
  return NaiveGate(gate_options(group).top_k(3)).ptr();
};
const GateMaker kDropless = [](const GroupPtr& group) {
  return DroplessGate(gate_options(group).z_loss(0.1)).ptr();
};
// With little room: some choices are dropped.
const GateMaker kGShard = [](const GroupPtr& group) {
  return GShardGate(gate_options(group).capacity({0.7, 0.7})).ptr();
};
const GateMaker kSwitch = [](const GroupPtr& group) {
  return SwitchGate(gate_options(group).capacity({0.6, 0.6})).ptr();
};

class MoE : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, MoE, ::testing::Values(1, 2, 3, 4));

TEST_P(MoE, EqualsOneProcessWithEveryGate) {
  run_ranks(GetParam(), [](World& world) {
    for (const auto& gate : {kNaive, kDropless, kGShard, kSwitch}) {
      check_pair(make_pair(layer_options(), gate), world, {});
    }
  });
}

TEST_P(MoE, ARankMayHaveNoTokens) {
  run_ranks(GetParam(), [](World& world) {
    for (const auto& gate : {kDropless, kGShard, kSwitch}) {
      check_pair(
          make_pair(layer_options(), gate), world, {.tokens = kNoneOnTheLast});
    }
  });
}

// All to the experts 0 and 1, which the first rank has.
TEST_P(MoE, ExpertsMayGetNoTokens) {
  run_ranks(GetParam(), [](World& world) {
    const auto prefer_two = [](MoELayer& layer) {
      const torch::NoGradGuard no_grad;
      layer->gate->bias.narrow(0, 0, 2).fill_(100);
    };
    const Pair pair = make_pair(layer_options(), kDropless);
    check_pair(pair, world, {.prepare = prefer_two});
    if (world.rank() > 0) {
      const at::Tensor grad = pair.own->grouped->weight1.grad();
      EXPECT_TRUE(torch::equal(grad, torch::zeros_like(grad)));
    }
  });
}

Expert make_expert(std::int64_t) {
  return torch::nn::Sequential(
      torch::nn::Linear(kWidth, 5),
      torch::nn::Tanh(),
      torch::nn::Linear(5, kWidth));
}

TEST_P(MoE, AnyModuleIsAnExpert) {
  run_ranks(GetParam(), [](World& world) {
    for (const bool recompute : {false, true}) {
      const MoELayerOptions options =
          layer_options().expert(make_expert).recompute(recompute);
      check_pair(make_pair(options, kNaive), world, {});
      check_pair(
          make_pair(options, kSwitch), world, {.tokens = kNoneOnTheLast});
    }
  });
}

TEST_P(MoE, ComputesEveryActivation) {
  using Activation = ExpertActivation;
  run_ranks(GetParam(), [](World& world) {
    for (const auto activation :
         {Activation::Relu,
          Activation::Silu,
          Activation::SwiGlu,
          Activation::GeGlu}) {
      const Pair pair =
          make_pair(layer_options().activation(activation), kDropless);
      check_pair(pair, world, {});
      const bool is_gated =
          activation == Activation::SwiGlu || activation == Activation::GeGlu;
      EXPECT_EQ(pair.own->grouped->weight3.defined(), is_gated);
    }
  });
}

// Frozen weights of a gate, and inputs without gradients.
TEST(MoERanks, GatedExpertsMayBeFrozen) {
  run_ranks(1, [](World&) {
    MoELayer layer =
        make_pair(layer_options().activation(ExpertActivation::SwiGlu), kNaive)
            .own;
    layer->grouped->weight3.requires_grad_(false);
    layer(tokens_of(9, 0, torch::kDouble).detach()).sum().backward();
    EXPECT_FALSE(layer->grouped->weight3.grad().defined());
    EXPECT_TRUE(layer->grouped->bias3.grad().defined());
    EXPECT_TRUE(layer->grouped->weight1.grad().defined());
  });
}

// Chunks, some of them without tokens.
TEST_P(MoE, EqualsOneProcessWithOverlap) {
  run_ranks(GetParam(), [](World& world) {
    for (const int chunks : {2, 5}) {
      const auto options = layer_options().overlap_chunks(chunks);
      for (const auto& gate : {kNaive, kDropless, kGShard, kSwitch}) {
        check_pair(make_pair(options, gate), world, {});
      }
      check_pair(
          make_pair(options, kDropless), world, {.tokens = kNoneOnTheLast});
      check_pair(
          make_pair(
              MoELayerOptions(options).expert(make_expert).recompute(true),
              kSwitch),
          world,
          {});
    }
  });
}

// With whole numbers all sums are exact, in any order.
TEST(MoERanks, OverlapChangesNoBit) {
  run_ranks(2, [](World& world) {
    const auto run = [&](int chunks) {
      MoELayer layer = make_pair(
                           layer_options()
                               .activation(ExpertActivation::Relu)
                               .overlap_chunks(chunks),
                           [](const GroupPtr& group) {
                             return NaiveGate(gate_options(group).weights(
                                                  GateWeights::Logits))
                                 .ptr();
                           })
                           .own;
      const torch::NoGradGuard no_grad;
      for (const at::Tensor& each : layer->parameters()) {
        each.mul_(8).round_();
      }
      const at::Tensor x =
          (tokens_of(13, world.rank(), torch::kDouble).detach() * 8).round();
      x.requires_grad_();
      const at::AutoGradMode grad(true);
      const at::Tensor y = layer(x);
      y.sum().backward();
      Tensors all{y.detach(), x.grad()};
      for (const at::Tensor& each : layer->parameters()) {
        all.push_back(each.grad());
      }
      return all;
    };
    const Tensors whole = run(1);
    for (const int chunks : {2, 3}) {
      const Tensors chunked = run(chunks);
      for (std::size_t i = 0; i < whole.size(); ++i) {
        EXPECT_TRUE(torch::equal(chunked[i], whole[i])) << i;
      }
    }
  });
}

TEST(MoERanks, OverlapSendsEachChunkOnceThereAndBack) {
  run_ranks(2, [](World&) {
    const GroupPtr group = get_group(0);
    MoELayer layer = make_pair(layer_options().overlap_chunks(3), kNaive).own;
    const auto before = group->traffic().of(OpKind::AllToAll).calls;
    const at::Tensor y = layer(tokens_of(8, 0, torch::kDouble));
    const auto between = group->traffic().of(OpKind::AllToAll).calls;
    EXPECT_EQ(between - before, 1u + 3 * 2);
    y.sum().backward();
    EXPECT_EQ(group->traffic().of(OpKind::AllToAll).calls - between, 3u * 2);
    EXPECT_THAT(
        argosy::testing::refusal([&] { y.sum().backward(); }),
        ::testing::HasSubstr("called twice"));
  });
}

TEST(MoEProcesses, EqualOneProcess) {
  argosy::testing::run_process_ranks(2, [](World& world) {
    check_pair(make_pair(layer_options(), kGShard), world, {});
    check_pair(
        make_pair(layer_options().recompute(true), kDropless), world, {});
    check_pair(
        make_pair(layer_options().overlap_chunks(2), kDropless), world, {});
  });
}

TEST(MoERanks, SixteenBits) {
  run_ranks(2, [](World& world) {
    const PairCheck check{
        .type = torch::kBFloat16,
        .limits = {.relative = 0.05, .absolute = 0.05}};
    check_pair(
        make_pair(layer_options(), kDropless, torch::kBFloat16), world, check);
  });
}

// Experts compute in bfloat16, the gate does not.
TEST(MoERanks, Autocast) {
  run_ranks(2, [](World&) {
    MoELayer layer = make_pair(layer_options(), kDropless, torch::kFloat).own;
    const at::Tensor x = tokens_of(20, 0, torch::kFloat);
    const at::Tensor exact = layer(x);
    const at::Tensor weights = layer->gate->forward(x).weights;
    const auto cast = std::make_unique<optim::AutoCast>();
    const at::Tensor y = layer(x);
    EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
    EXPECT_TRUE(torch::equal(layer->gate->forward(x).weights, weights));
    EXPECT_TRUE(torch::allclose(y.to(torch::kFloat), exact, 0.05, 0.02));
    EXPECT_FALSE(torch::equal(y.to(torch::kFloat), exact));
    y.sum().backward();
    EXPECT_EQ(layer->grouped->weight1.grad().scalar_type(), torch::kFloat);
    EXPECT_GT(layer->gate->weight.grad().abs().sum().item<double>(), 0);
  });
}

// What is sent: counts of rows, rows there and back, and the gradients.
TEST(MoERanks, SendRowsOnceThereAndBack) {
  run_ranks(2, [](World&) {
    const GroupPtr group = get_group(0);
    const Pair pair = make_pair(layer_options(), kNaive);
    MoELayer layer = pair.own;
    const at::Tensor x = tokens_of(8, 0, torch::kDouble);
    const auto before = group->traffic().of(OpKind::AllToAll);
    const at::Tensor y = layer(x);
    const auto between = group->traffic().of(OpKind::AllToAll);
    EXPECT_EQ(between.calls - before.calls, 3u);
    y.sum().backward();
    const auto after = group->traffic().of(OpKind::AllToAll);
    EXPECT_EQ(after.calls - between.calls, 2u);
    // Both ranks have the same tokens, so that all send equally much: each way
    // 3 rows for each token.
    const std::size_t row_bytes = kWidth * sizeof(double);
    const std::size_t rows = std::size_t{8} * 3;
    EXPECT_GE(after.bytes - between.bytes, 2 * rows * row_bytes);
    EXPECT_LE(after.bytes - between.bytes, 4 * rows * row_bytes);
    EXPECT_EQ(
        // The counts, and for each rank whether its experts learn.
        between.bytes - before.bytes - (kExperts + 2) * sizeof(std::int64_t),
        after.bytes - between.bytes);
    EXPECT_EQ(group->traffic().of(OpKind::AllReduce).calls, 0u);
  });
}

TEST(MoERanks, AnyBatchDims) {
  run_ranks(2, [](World&) {
    const Pair pair = make_pair(layer_options(), kNaive);
    MoELayer layer = pair.own;
    const at::Tensor x = numbers({2, 3, 4, kWidth}, 5);
    const at::Tensor y = layer(x);
    EXPECT_EQ(y.sizes(), x.sizes());
    expect_close(y.flatten(0, 2), layer(x.flatten(0, 2)), "flat");
    expect_close(y[1][2][3], layer(x[1][2][3]), "one token");
    EXPECT_THROW(layer(numbers({2, 5}, 1)), InvalidArgument);
  });
}

TEST(MoERanks, ExpertsAreMarked) {
  run_ranks(2, [](World&) {
    const MoELayer layer(layer_options());
    const MoELayer lonely(layer_options().group(alone()));
    for (const at::Tensor& each : layer->grouped->parameters()) {
      EXPECT_EQ(marks_of(each), ParameterMarks{.is_expert = true});
    }
    EXPECT_EQ(marks_of(layer->gate->weight), ParameterMarks());
    EXPECT_EQ(marks_of(lonely->grouped->weight1), ParameterMarks());
    EXPECT_EQ(lonely->grouped->weight1.size(0), kExperts);
    EXPECT_THROW(
        MoELayer(MoELayerOptions(kWidth, 3).gate(kNaive(get_group(0)))),
        InvalidArgument);
    EXPECT_THROW(
        MoELayer(layer_options().mp_group(get_group(0))), InvalidArgument);
  });
}

// Experts over {0, 2} and {1, 3}, tensor parallel over {0, 1} and {2, 3}.
struct Axes {
  explicit Axes(World& world)
      : replica(world.rank() / 2),
        expert(shared_group(
            current_world(), {world.rank() % 2, world.rank() % 2 + 2})),
        mp(shared_group(current_world(), {replica * 2, replica * 2 + 1})) {}

  const int replica;
  const GroupPtr expert;
  const GroupPtr mp;
};

at::Tensor mp_part(
    const at::Tensor& parameter, const at::Tensor& whole, const Axes& axes) {
  const at::Tensor local = local_part(whole, *axes.expert);
  const ParameterMarks marks = marks_of(parameter);
  return marks.is_distributed
      ? comm::own_shard(local, marks.split_axis, *axes.mp)
      : local;
}

// 7 hidden features and 11 tokens do not divide by 2.
void check_mp(World& world, bool split, MoELayerOptions options) {
  const Axes axes(world);
  options.hidden(7).group(axes.expert).mp_group(axes.mp).split_experts(split);
  // Its loss is that of the tokens of a rank: not of halves of them.
  Pair pair = make_pair(options, split ? kDropless : kNaive);
  at::Tensor whole_x, whole_y;
  at::Tensor sum = torch::zeros({}, torch::kDouble);
  for (int replica = 0; replica < 2; ++replica) {
    const at::Tensor x = tokens_of(11, replica, torch::kDouble);
    const at::Tensor y = pair.whole.forward(x);
    sum = sum + loss_of(y, replica, pair.whole.layer()->get_loss());
    if (replica == axes.replica) {
      whole_x = x;
      whole_y = y;
    }
  }
  sum.backward();
  const at::Tensor x = tokens_of(11, axes.replica, torch::kDouble);
  const at::Tensor y = pair.own(x);
  loss_of(y, axes.replica, pair.own->get_loss()).backward();
  expect_close(y, whole_y, "y");
  expect_close(x.grad(), whole_x.grad(), "x.grad");
  for (const auto& item : pair.own->named_parameters()) {
    const ParameterMarks marks = marks_of(item.value());
    EXPECT_EQ(marks.sequence_parallel, !split);
    const at::Tensor grad = item.value().grad().clone();
    if (marks.sequence_parallel) {
      all_reduce(grad, ReduceOp::SUM, axes.mp);
    }
    if (!marks.is_expert) {
      all_reduce(grad, ReduceOp::SUM, axes.expert);
    }
    const at::Tensor whole = pair.whole.layer()->named_parameters()[item.key()];
    const at::Tensor wanted = marks.is_expert
        ? mp_part(item.value(), whole.grad(), axes)
        : whole.grad();
    expect_close(grad, wanted, item.key());
  }
}

TEST(MoERanks, ExpertsAreSplitOverTensorParallelRanks) {
  run_ranks(4, [](World& world) {
    check_mp(world, true, layer_options());
    check_mp(world, true, layer_options().recompute(true));
    check_mp(world, true, layer_options().activation(ExpertActivation::SwiGlu));
    check_mp(world, true, layer_options().overlap_chunks(3));
  });
}

TEST(MoERanks, TokensAreDividedOverTensorParallelRanks) {
  run_ranks(4, [](World& world) {
    check_mp(world, false, layer_options());
    check_mp(world, false, layer_options().recompute(true));
    check_mp(world, false, layer_options().overlap_chunks(2));
  });
}

struct CutExpertImpl : torch::nn::Module {
  explicit CutExpertImpl(const GroupPtr& mp)
      : up(register_module(
            "up",
            ColumnParallelLinear(ColumnParallelLinearOptions(kWidth, 7)
                                     .gather_output(false)
                                     .group(mp)))),
        down(register_module(
            "down",
            RowParallelLinear(RowParallelLinearOptions(7, kWidth)
                                  .input_is_parallel(true)
                                  .group(mp)))) {}

  at::Tensor forward(const at::Tensor& x) { return down(up(x).tanh()); }

  ColumnParallelLinear up;
  RowParallelLinear down;
};

// Parts of the same experts on both ranks, those of one process.
TEST(MoERanks, AnExpertMayHaveTensorParallelLayers) {
  run_ranks(4, [](World& world) {
    const Axes axes(world);
    const auto make = [](const GroupPtr& group, const GroupPtr& mp) {
      model_parallel_random_seed(3, {});
      MoELayer layer(MoELayerOptions(kWidth, kExperts)
                         .expert([mp](std::int64_t) {
                           return std::make_shared<CutExpertImpl>(mp);
                         })
                         .gate(kNaive(group))
                         .group(group)
                         .mp_group(mp)
                         .split_experts(true));
      layer->to(torch::kDouble);
      return layer;
    };
    MoELayer own = make(axes.expert, axes.mp);
    MoELayer whole = make(alone(), alone());
    const auto expected = whole->named_parameters();
    for (const auto& item : own->named_parameters()) {
      EXPECT_EQ(
          marks_of(item.value()).is_expert, item.key().starts_with("experts"));
      expect_close(
          tensor_parallel::full_parameter(item.value(), axes.mp),
          expected[item.key()].detach(),
          item.key(),
          {0, 0});
    }
    const at::Tensor x = tokens_of(11, axes.replica, torch::kDouble);
    expect_close(own(x), whole(x), "y");
  });
}

// The mean over halves is the loss that all ranks of the group have.
TEST(MoERanks, LossOfDividedTokensIsTheirMean) {
  run_ranks(2, [](World& world) {
    model_parallel_random_seed(3, {});
    MoELayer layer(layer_options()
                       .group(alone())
                       .mp_group(get_group(0))
                       .gate(kDropless(alone())));
    layer->to(torch::kDouble);
    const at::Tensor x = tokens_of(10, 0, torch::kDouble);
    layer(x);
    const at::Tensor own = layer->gate->get_loss(false).detach().clone();
    const at::Tensor loss = layer->get_loss();
    EXPECT_FALSE(layer->get_loss().defined());
    all_reduce(own, ReduceOp::AVG);
    expect_close(loss, own, "loss");
    loss.backward();
    const at::Tensor grad = layer->gate->weight.grad().clone();
    all_reduce(grad, ReduceOp::SUM);

    at::Tensor mean = torch::zeros({}, torch::kDouble);
    layer->zero_grad();
    for (const at::Tensor& half : x.detach().chunk(2)) {
      layer->gate->forward(half);
      mean = mean + layer->gate->get_loss() / world.size();
    }
    mean.backward();
    expect_close(grad, layer->gate->weight.grad(), "gradient");
  });
}

// As when the caller adds the loss.
TEST(MoERanks, BackwardMayGoThroughTheLossByItself) {
  run_ranks(2, [](World&) {
    const auto options = [] { return layer_options().loss_weight(0.3); };
    MoELayer added = make_pair(layer_options(), kDropless).own;
    MoELayer attached = make_pair(options(), kDropless).own;
    const at::Tensor x = tokens_of(9, 0, torch::kDouble);
    const at::Tensor plain = added(x);
    loss_of(plain, 0, added->get_loss()).backward();
    const at::Tensor y = attached(x);
    expect_close(y, plain, "y");
    loss_of(y, 0, {}).backward();
    for (const auto& item : added->named_parameters()) {
      expect_close(
          attached->named_parameters()[item.key()].grad(),
          item.value().grad(),
          item.key());
    }
  });
}

// Norms are those of the experts of all ranks, as in one process.
TEST(GroupedExperts, LambStepsAsInOneProcess) {
  const auto step = [](const GroupPtr& group) {
    GroupedExperts experts(
        GroupedExpertsOptions(kWidth, 2 * kWidth, kExperts).group(group));
    const torch::NoGradGuard no_grad;
    long seed = 0;
    for (const at::Tensor& parameter : experts->parameters()) {
      auto sizes = parameter.sizes().vec();
      sizes[0] = kExperts;
      const auto own = [&](const at::Tensor& whole) {
        return comm::own_shard(whole, 0, *group).to(torch::kFloat).clone();
      };
      parameter.copy_(own(numbers(sizes, ++seed)));
      parameter.mutable_grad() = own(numbers(sizes, ++seed) * 0.1);
    }
    optim::Lamb lamb(experts->parameters(), optim::LambOptions(0.1));
    lamb.step();
    return experts->parameters();
  };
  std::vector<at::Tensor> whole;
  run_ranks(1, [&](World&) { whole = step(get_group(0)); });
  run_ranks(3, [&](World&) {
    const auto parts = step(get_group(0));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      EXPECT_TRUE(torch::allclose(
          parts[i], comm::own_shard(whole[i], 0, *get_group(0))))
          << i;
    }
  });
}

} // namespace
} // namespace argosy
