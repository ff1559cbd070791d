// Experts that do not divide by the ranks, and ranks without any, against one
// process with all experts.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/data_parallel/data_parallel.h"
#include "argosy/expert/clip.h"
#include "argosy/expert/global_scatter.h"
#include "argosy/expert/routing.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/gradients.h"
#include "argosy/optim/lamb.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/expert/compare_moe.h"

namespace argosy {
namespace {

using argosy::testing::alone;
using argosy::testing::check_pair;
using argosy::testing::expect_close;
using argosy::testing::GateMaker;
using argosy::testing::kNoneOnTheLast;
using argosy::testing::kWidth;
using argosy::testing::local_part;
using argosy::testing::loss_of;
using argosy::testing::numbers;
using argosy::testing::Pair;
using argosy::testing::run_ranks;
using argosy::testing::tokens_of;

GateMaker gate_of(long experts, bool like_paddle = false) {
  return [=](const GroupPtr& group) {
    return GShardGate(GateOptions(kWidth, experts)
                          .random_routing(false)
                          .capacity({0.7, 0.7})
                          .like_paddle(like_paddle)
                          .group(group))
        .ptr();
  };
}

GateMaker dropless_of(long experts) {
  return [=](const GroupPtr& group) {
    return DroplessGate(GateOptions(kWidth, experts).z_loss(0.1).group(group))
        .ptr();
  };
}

Expert small_expert(std::int64_t) {
  return torch::nn::Sequential(
      torch::nn::Linear(kWidth, 5),
      torch::nn::Tanh(),
      torch::nn::Linear(5, kWidth));
}

MoELayerOptions options_of(long experts) {
  return MoELayerOptions(kWidth, experts).hidden(10);
}

// With 4 ranks: 2, 1, 1, 1; 2, 2, 1, 1; 1, 1, 1, 0 and 1, 1, 0, 0 experts.
class Uneven : public ::testing::TestWithParam<long> {};
INSTANTIATE_TEST_SUITE_P(Experts, Uneven, ::testing::Values(5, 6, 3, 2));

TEST_P(Uneven, EqualOneProcess) {
  const long experts = GetParam();
  run_ranks(4, [&](World& world) {
    for (const auto& gate : {gate_of(experts), dropless_of(experts)}) {
      for (const int chunks : {1, 3}) {
        const auto options = options_of(experts).overlap_chunks(chunks);
        check_pair(testing::make_pair(options, gate), world, {});
        check_pair(
            testing::make_pair(options, gate),
            world,
            {.tokens = kNoneOnTheLast});
      }
    }
  });
}

TEST_P(Uneven, EqualOneProcessWithModulesAsExperts) {
  const long experts = GetParam();
  run_ranks(4, [&](World& world) {
    for (const bool recompute : {false, true}) {
      for (const int chunks : {1, 2}) {
        const auto options = options_of(experts)
                                 .expert(small_expert)
                                 .recompute(recompute)
                                 .overlap_chunks(chunks);
        check_pair(
            testing::make_pair(options, dropless_of(experts)), world, {});
      }
    }
  });
}

TEST(UnevenProcesses, EqualOneProcess) {
  argosy::testing::run_process_ranks(3, [](World& world) {
    for (const long experts : {2, 4}) {
      check_pair(
          testing::make_pair(options_of(experts), dropless_of(experts)),
          world,
          {});
    }
  });
}

// Nothing but the experts learns, and the last ranks have none: they must still
// send the gradients of their rows.
TEST(UnevenRanks, RanksWithoutExpertsTakePartInBackward) {
  run_ranks(3, [](World& world) {
    for (const auto& factory : {ExpertFactory(), ExpertFactory(small_expert)}) {
      for (const int chunks : {1, 2}) {
        Pair pair = testing::make_pair(
            options_of(2).expert(factory).overlap_chunks(chunks),
            dropless_of(2));
        at::Tensor sum = torch::zeros({}, torch::kDouble);
        for (auto* layer : {&pair.own, &pair.whole.layer()}) {
          for (const at::Tensor& each : (*layer)->gate->parameters()) {
            each.requires_grad_(false);
          }
        }
        for (int rank = 0; rank < world.size(); ++rank) {
          const at::Tensor x = tokens_of(9, rank, torch::kDouble).detach();
          sum = sum + loss_of(pair.whole.forward(x), rank, {});
        }
        sum.backward();
        const at::Tensor own =
            tokens_of(9, world.rank(), torch::kDouble).detach();
        loss_of(pair.own(own), world.rank(), {}).backward();
        argosy::testing::expect_same_experts(
            pair.own, pair.whole.layer(), *get_group(0), {});
      }
    }
  });
}

// Without the flag that ranks exchange, the first would not send gradients.
TEST(UnevenRanks, ARankMayFreezeItsExperts) {
  run_ranks(2, [](World& world) {
    for (const int chunks : {1, 2}) {
      MoELayer layer = testing::make_pair(
                           options_of(4).overlap_chunks(chunks), dropless_of(4))
                           .own;
      for (const at::Tensor& each : layer->grouped->parameters()) {
        each.requires_grad_(world.rank() == 1);
      }
      layer(tokens_of(9, 0, torch::kDouble).detach()).sum().backward();
      EXPECT_EQ(layer->grouped->weight1.grad().defined(), world.rank() == 1);
    }
  });
}

// Paddle's capacity counts over ranks, so that they exchange what they take.
TEST(UnevenRanks, CapacityOverRanks) {
  run_ranks(3, [](World& world) {
    model_parallel_random_seed(3, {});
    const auto gate = gate_of(5, /*like_paddle=*/true)(get_group(0));
    gate->to(torch::kDouble);
    const at::Tensor x = tokens_of(20, world.rank(), torch::kDouble);
    const at::Tensor kept = expert::number_count(gate->forward(x).experts, 5);
    all_reduce(kept);
    EXPECT_LE(kept.max().item<long>(), 14); // ceil(0.7 * 20)
    EXPECT_GT(kept.min().item<long>(), 0);
  });
}

TEST(UnevenRanks, RowsTravelThereAndBack) {
  run_ranks(3, [](World& world) {
    const GroupPtr group = get_group(0);
    const at::Tensor local = torch::arange(5) + world.rank();
    const at::Tensor global = expert::exchange_counts(local, group);
    const long rows = local.sum().item<long>();
    const at::Tensor x = numbers({rows, 2}, world.rank()).requires_grad_();
    const at::Tensor there = expert::global_scatter(x, local, global, group);
    EXPECT_EQ(there.size(0), global.sum().item<long>());
    const at::Tensor back =
        expert::global_gather(there * 3, local, global, group);
    EXPECT_TRUE(torch::equal(back, x * 3));
    back.sum().backward();
    EXPECT_TRUE(torch::equal(x.grad(), torch::full_like(x, 3)));
  });
}

// Steps with data parallelism, clipping and LAMB, whose norms are over all
// experts.
template <typename Optimizer, typename Options>
void train(long experts, const ExpertFactory& factory, const Options& options) {
  const auto make = [&](const GroupPtr& group) {
    model_parallel_random_seed(7, {});
    MoELayer layer(options_of(experts).expert(factory).group(group).gate(
        dropless_of(experts)(group)));
    layer->to(torch::kDouble);
    return layer;
  };
  run_ranks(4, [&](World& world) {
    MoELayer whole = make(alone());
    MoELayer own = make(get_group(0));
    DataParallel model(own);
    Optimizer of_whole(whole->parameters(), options);
    Optimizer of_own(own->parameters(), options);
    for (long step = 0; step < 3; ++step) {
      at::Tensor sum = torch::zeros({}, torch::kDouble);
      of_whole.zero_grad();
      for (int rank = 0; rank < world.size(); ++rank) {
        const at::Tensor x = numbers({7, kWidth}, step * 31 + rank);
        const at::Tensor y = whole(x);
        sum = sum + loss_of(y, rank, whole->get_loss()) / world.size();
      }
      sum.backward();
      of_own.zero_grad();
      const at::Tensor x = numbers({7, kWidth}, step * 31 + world.rank());
      const at::Tensor y = model(x);
      loss_of(y, world.rank(), own->get_loss()).backward();
      EXPECT_NEAR(
          clip_grad_norm_moe(own->parameters(), 0.05),
          optim::clip_grad_norm_(whole->parameters(), 0.05),
          1e-9);
      of_whole.step();
      of_own.step();
    }
    const auto expected = whole->named_parameters();
    for (const auto& item : own->named_parameters()) {
      const at::Tensor& wanted = expected[item.key()];
      expect_close(
          item.value(),
          own->grouped && marks_of(item.value()).is_expert
              ? local_part(wanted, *get_group(0))
              : wanted,
          item.key(),
          {1e-7, 1e-9});
    }
  });
}

TEST(UnevenRanks, TrainAsOneProcess) {
  for (const long experts : {3, 5}) {
    train<optim::Adam>(experts, nullptr, optim::AdamOptions(0.01));
    train<optim::Adam>(experts, small_expert, optim::AdamOptions(0.01));
    train<optim::Lamb>(experts, nullptr, optim::LambOptions(0.01));
  }
}

} // namespace
} // namespace argosy
