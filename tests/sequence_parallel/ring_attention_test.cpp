// Keys and values that go around: results, work, messages and memory.

#include "argosy/sequence_parallel/ring_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/comm/group.h"
#include "argosy/comm/ops.h"
#include "argosy/comm/traffic.h"
#include "argosy/common/error.h"
#include "argosy/observe/tensor_memory.h"
#include "argosy/optim/autocast.h"
#include "argosy/recomputation/recompute.h"
#include "argosy/tensor_parallel/rng.h"
#include "argosy/testing/gtest_ranks.h"
#include "tests/sequence_parallel/attention_oracle.h"

namespace argosy::testing {
namespace {

using comm::OpKind;
using sequence_parallel::AttentionBlock;
using sequence_parallel::plan_ring;
using ::testing::ElementsAre;

TEST(SequenceSplit, Contiguous) {
  const SequenceSplit split = contiguous_split(7, 3);
  EXPECT_THAT(split.positions(0), ElementsAre(0, 1, 2));
  EXPECT_THAT(split.positions(1), ElementsAre(3, 4));
  EXPECT_THAT(split.positions(2), ElementsAre(5, 6));
  EXPECT_EQ(split.total(), 7);
}

TEST(SequenceSplit, Zigzag) {
  EXPECT_THAT(zigzag_positions(8, 2, 0), ElementsAre(0, 1, 6, 7));
  EXPECT_THAT(zigzag_positions(8, 2, 1), ElementsAre(2, 3, 4, 5));
  // Chunks of 2, 2, 2, 1, 1, 1.
  EXPECT_THAT(zigzag_positions(9, 3, 0), ElementsAre(0, 1, 8));
  EXPECT_THAT(zigzag_positions(9, 3, 2), ElementsAre(4, 5, 6));
  EXPECT_THROW(zigzag_split(8, 0), InvalidArgument);
}

TEST(RingPlan, BlocksOfZigzag) {
  const sequence_parallel::RingPlan plan = plan_ring(zigzag_split(8, 2), true);
  const Segment front{0, 2};
  const Segment back{2, 2};
  const Segment all{0, 4};
  EXPECT_THAT(
      plan.blocks[0][0],
      ElementsAre(
          AttentionBlock{front, front, true},
          AttentionBlock{back, front, false},
          AttentionBlock{back, back, true}));
  EXPECT_THAT(plan.blocks[0][1], ElementsAre(AttentionBlock{back, all}));
  EXPECT_THAT(plan.blocks[1][1], ElementsAre(AttentionBlock{all, front}));
  EXPECT_THAT(plan.last_step, ElementsAre(1, 1));
}

// Without a mask, one block a step.
TEST(RingPlan, BlocksWithoutMask) {
  for (const SequenceSplit& split :
       {zigzag_split(24, 3), contiguous_split(24, 3)}) {
    const sequence_parallel::RingPlan plan = plan_ring(split, false);
    for (int step = 0; step < 3; ++step) {
      EXPECT_THAT(
          plan.blocks[1][step],
          ElementsAre(AttentionBlock{{0, 8}, {0, 8}, false}));
    }
  }
}

// All pairs of a causal mask, in equal parts; contiguous parts are far from
// equal, and the last rank has nearly twice the mean.
TEST(RingPlan, ZigzagIsBalanced) {
  constexpr long kLength = 64;
  for (const int n : {2, 4, 8}) {
    const sequence_parallel::RingPlan zigzag =
        plan_ring(zigzag_split(kLength, n), true);
    const sequence_parallel::RingPlan plain =
        plan_ring(contiguous_split(kLength, n), true);
    std::int64_t sum = 0;
    for (int rank = 0; rank < n; ++rank) {
      EXPECT_EQ(zigzag.area(rank), zigzag.area(0));
      sum += plain.area(rank);
    }
    EXPECT_EQ(sum, kLength * (kLength + 1) / 2);
    EXPECT_EQ(zigzag.area(0) * n, sum);
    EXPECT_GT(plain.area(n - 1) * n, sum * 7 / 5);
  }
}

// Masked blocks are left out, and keys go no further than they are needed.
TEST(RingPlan, ContiguousKeysStopAtTheLastRank) {
  const sequence_parallel::RingPlan plan =
      plan_ring(contiguous_split(12, 4), true);
  EXPECT_THAT(plan.last_step, ElementsAre(3, 2, 1, 0));
  EXPECT_TRUE(plan.blocks[1][2].empty());
  EXPECT_TRUE(plan.comes(3, 1));
  EXPECT_FALSE(plan.comes(0, 1));
}

Attention ring(const AttentionCase& each, const SegmentParallel& segment) {
  return [&, options = own_options(segment, each.options)](
             const auto& q, const auto& k, const auto& v) {
    return segment.ring(q, k, v, options);
  };
}

void check(const AttentionCase& each, const SequenceSplit& split) {
  check_on_ranks(
      each,
      split,
      [&](const SegmentParallel& segment) { return ring(each, segment); },
      each.options.causal ? "causal" : "full");
}

TEST(RingAttentionRanks, EqualsOneRank) {
  for (const bool causal : {false, true}) {
    const AttentionCase each{.options = {.causal = causal}};
    for (const int n : {1, 2, 3, 4}) {
      check(each, zigzag_split(each.length, n));
      check(each, contiguous_split(each.length, n));
    }
  }
}

// Parts of different lengths, some empty.
TEST(RingAttentionRanks, LengthsThatDoNotDivide) {
  for (const bool causal : {false, true}) {
    for (const long length : {1, 5, 13}) {
      const AttentionCase each{.length = length, .options = {.causal = causal}};
      for (const int n : {2, 3, 4}) {
        check(each, zigzag_split(length, n));
        check(each, contiguous_split(length, n));
      }
    }
  }
}

TEST(RingAttentionRanks, SharedKeysAndOtherDims) {
  const AttentionCase grouped{
      .heads = 6, .key_heads = 2, .value_dim = 4, .options = {.causal = true}};
  check(grouped, zigzag_split(grouped.length, 3));
  AttentionCase single{.key_heads = 1, .options = {.scale = 0.3}};
  check(single, contiguous_split(single.length, 2));
}

TEST(RingAttentionRanks, PaddingMasks) {
  for (const bool causal : {false, true}) {
    for (const at::Tensor& mask : padding_masks(12)) {
      const AttentionCase each{
          .key_heads = 2,
          .options = {.causal = causal, .key_padding_mask = mask}};
      for (const int n : {1, 2, 3}) {
        check(each, zigzag_split(each.length, n));
        check(each, contiguous_split(each.length, n));
      }
    }
  }
}

// The weights that are dropped are the same on any number of ranks.
TEST(RingAttentionRanks, Dropout) {
  for (const bool causal : {false, true}) {
    AttentionCase each{
        .key_heads = 2,
        .length = 13,
        .options = {.causal = causal, .dropout = 0.3, .dropout_seed = 7}};
    for (const at::Tensor& mask : {at::Tensor(), padding_masks(13)[2]}) {
      each.options.key_padding_mask = mask;
      for (const int n : {1, 2, 3, 4}) {
        check(each, zigzag_split(each.length, n));
        check(each, contiguous_split(each.length, n));
      }
    }
  }
}

TEST(WeightDropout, DropsItsShareInAllDirections) {
  const auto share = [](const auto& is_kept) {
    int kept = 0;
    for (int i = 0; i < 20000; ++i) {
      kept += is_kept(i);
    }
    return kept / 20000.0;
  };
  const sequence_parallel::WeightDropout one{.probability = 0.3, .seed = 1};
  const sequence_parallel::WeightDropout two{.probability = 0.3, .seed = 2};
  EXPECT_NEAR(
      share([&](int i) { return one.keeps(one.row(0, 0, 0), i); }), 0.7, 0.02);
  EXPECT_NEAR(
      share([&](int i) { return one.keeps(one.row(0, 0, i), 0); }), 0.7, 0.02);
  EXPECT_NEAR(
      share([&](int i) { return one.keeps(one.row(0, i, 5), 0); }), 0.7, 0.02);
  EXPECT_NEAR(
      share([&](int i) { return one.keeps(one.row(i, 2, 5), 3); }), 0.7, 0.02);
  // Of neighbours and of two seeds, as many are kept together as chance has it.
  EXPECT_NEAR(
      share([&](int i) {
        return one.keeps(one.row(0, 0, 0), i) &&
            one.keeps(one.row(0, 0, 0), i + 1);
      }),
      0.49,
      0.02);
  EXPECT_NEAR(
      share([&](int i) {
        return one.keeps(one.row(0, 0, i), 1) &&
            one.keeps(one.row(0, 0, i + 1), 0);
      }),
      0.49,
      0.02);
  EXPECT_NEAR(
      share([&](int i) {
        return one.keeps(one.row(0, 0, 0), i) && two.keeps(two.row(0, 0, 0), i);
      }),
      0.49,
      0.02);
  const sequence_parallel::WeightDropout shifted{0.3, 1, 4};
  EXPECT_EQ(shifted.row(0, 0, 9), one.row(0, 4, 9));
}

// Ranks agree on a seed that they were not given, draw another for the next
// call, and repeat both from the state of their generators.
TEST(RingAttentionRanks, DropoutWithoutASeed) {
  const AttentionCase each{.length = 64, .options = {.dropout = 0.5}};
  const std::vector<at::Tensor> x = whole_inputs(each);
  std::vector<at::Tensor> outs;
  for (int run = 0; run < 2; ++run) {
    run_ranks(2, [&](World& world) {
      model_parallel_random_seed(3);
      const SegmentParallel segment(nullptr, zigzag_split(each.length, 2));
      const auto scope = rng_states_tracker()->rng_state();
      const std::vector<at::Tensor> own = parts_of(segment, x);
      for (int call = 0; call < 2; ++call) {
        const at::Tensor out = segment.whole(
            segment.ring(
                own[0], own[1], own[2].detach().fill_(1), each.options),
            2);
        // The weights that are left add up to 1 in the mean. If ranks had
        // different seeds the results would differ from run to run.
        EXPECT_NEAR(out.mean().item<double>(), 1, 0.05);
        if (world.rank() == 0) {
          outs.push_back(out);
        }
      }
    });
  }
  EXPECT_FALSE(torch::equal(outs[0], outs[1]));
  EXPECT_TRUE(torch::equal(outs[0], outs[2]));
  EXPECT_TRUE(torch::equal(outs[1], outs[3]));
}

// The output is linear in the values: their product with their gradient is the
// loss, if backward drops what forward dropped.
TEST(RingAttentionRanks, DropoutUnderRecompute) {
  run_ranks(2, [](World&) {
    const AttentionCase each{.options = {.causal = true, .dropout = 0.5}};
    const SegmentParallel segment(nullptr, zigzag_split(each.length, 2));
    const std::vector<at::Tensor> x = own_inputs(segment, each);
    const at::Tensor out = recompute(ring(each, segment), x[0], x[1], x[2]);
    const at::Tensor loss = (out * x[3]).sum();
    loss.backward();
    at::Tensor sums =
        torch::stack({loss.detach(), (x[2].detach() * x[2].grad()).sum()});
    all_reduce(sums);
    EXPECT_NEAR(sums[0].item<double>(), sums[1].item<double>(), 1e-10);
  });
}

// Long enough for several tiles.
TEST(RingAttentionRanks, ManyTiles) {
  for (const bool causal : {false, true}) {
    const AttentionCase each{
        .batch = 1,
        .heads = 2,
        .key_heads = 1,
        .length = 1400,
        .options =
            {.causal = causal,
             .key_padding_mask = (torch::arange(1400) < 600).unsqueeze(0),
             .dropout = 0.1,
             .dropout_seed = 1},
        .dtype = torch::kFloat};
    check(each, zigzag_split(each.length, 2));
  }
}

TEST(RingAttentionRanks, ShorterTypes) {
  const AttentionCase each{
      .options = {.causal = true, .key_padding_mask = padding_masks(12)[3]},
      .dtype = torch::kBFloat16};
  check(each, zigzag_split(each.length, 3));
}

// As if the inputs were bfloat16: products round their inputs to it, sums are
// float32. Backward may run in the scope, too.
TEST(RingAttentionRanks, UnderAutoCast) {
  const at::Tensor mask = padding_masks(13)[2];
  for (const AttentionOptions& options :
       {AttentionOptions{},
        AttentionOptions{.causal = true, .dropout = 0.3, .dropout_seed = 7},
        AttentionOptions{
            .key_padding_mask = mask, .dropout = 0.3, .dropout_seed = 7}}) {
    AttentionCase each{.key_heads = 2, .length = 13, .options = options};
    each.dtype = torch::kBFloat16;
    const Results whole = expected_results(each);
    for (const int n : {1, 2, 3}) {
      run_ranks(n, [&](World&) {
        const SegmentParallel segment(nullptr, zigzag_split(13, n));
        const std::vector<at::Tensor> own =
            parts_of(segment, whole_inputs(each));
        const Results shorter = results_of(ring(each, segment), own);
        expect_close(shorter, parts_of(segment, whole), "bfloat16");
        std::vector<at::Tensor> wider = own;
        for (int i : {0, 1, 2}) {
          wider[i] = own[i].to(torch::kFloat);
        }
        const optim::AutoCast scope;
        Results got = results_of(ring(each, segment), wider);
        EXPECT_EQ(got[0].scalar_type(), torch::kBFloat16);
        EXPECT_EQ(got[1].scalar_type(), torch::kFloat);
        for (std::size_t i = 0; i < got.size(); ++i) {
          EXPECT_TRUE(torch::equal(got[i], shorter[i].to(got[i].dtype())));
        }
      });
    }
  }
}

TEST(RingAttention, OneRankNeedsNoGroup) {
  const AttentionCase each{.length = 1100, .options = {.causal = true}};
  expect_close(
      results_of(
          [&](const auto& q, const auto& k, const auto& v) {
            return tiled_attention(q, k, v, each.options);
          },
          whole_inputs(each)),
      expected_results(each),
      "tiled");
}

// Forward: keys and values once around. Backward: those again, and their
// gradients.
TEST(RingAttentionRanks, BytesSent) {
  constexpr int kRanks = 4;
  const auto sent_by_rank = [](const SequenceSplit& split, bool causal) {
    std::vector<std::vector<std::uint64_t>> sent(kRanks);
    const AttentionCase each{.length = 16, .options = {.causal = causal}};
    run_ranks(kRanks, [&](World& world) {
      const SegmentParallel segment(nullptr, split);
      const std::vector<at::Tensor> x = own_inputs(segment, each);
      const at::Tensor out = segment.ring(x[0], x[1], x[2], each.options);
      const auto& traffic = get_group(0)->traffic();
      const std::uint64_t forward = traffic.of(OpKind::Send).bytes;
      out.sum().backward();
      const std::uint64_t block = x[1].nbytes() + x[2].nbytes();
      sent[world.rank()] = {
          forward / block, traffic.of(OpKind::Send).bytes / block};
      EXPECT_EQ(traffic.total().calls % 2, 0u);
    });
    return sent;
  };
  using Sent = std::vector<std::uint64_t>;
  const Sent around{3, 9};
  EXPECT_THAT(
      sent_by_rank(zigzag_split(16, kRanks), true),
      ElementsAre(around, around, around, around));
  EXPECT_THAT(
      sent_by_rank(contiguous_split(16, kRanks), false),
      ElementsAre(around, around, around, around));
  // Rank r passes on the keys of r + 1 ranks, to nobody if it is the last. In
  // backward also the gradients of r ranks, which the last sends home.
  EXPECT_THAT(
      sent_by_rank(contiguous_split(16, kRanks), true),
      ElementsAre(Sent{1, 2}, Sent{2, 5}, Sent{3, 8}, Sent{0, 3}));
}

// In blocks of keys and values, beside a rank's own. Forward: two that travel,
// the queries scaled, the output, a tile. Backward: two that travel, with their
// gradients; what is added to these; the rank's own gradients; and as much of
// queries and outputs.
TEST(RingAttentionRanks, MemoryDoesNotGrowWithTheRanks) {
  for (const int n : {2, 3, 5}) {
    run_ranks(n, [&](World&) {
      const AttentionCase each{
          .batch = 1,
          .heads = 1,
          .key_heads = 1,
          .length = 1024L * n,
          .dim = 512,
          .value_dim = 512,
          .dtype = torch::kFloat};
      const SegmentParallel segment(nullptr, zigzag_split(each.length, n));
      const std::vector<at::Tensor> x = own_inputs(segment, each);
      TensorMemory memory;
      const auto peak = [&](const auto& run) {
        barrier();
        memory.reset_peak();
        const std::int64_t before = memory.current();
        run();
        return static_cast<double>(memory.peak() - before) /
            static_cast<double>(x[1].nbytes() + x[2].nbytes());
      };
      at::Tensor out;
      EXPECT_LE(
          peak([&] { out = segment.ring(x[0], x[1], x[2], {.causal = true}); }),
          2 + 0.5 + 0.5 + 0.4)
          << n;
      EXPECT_LE(peak([&] { out.sum().backward(); }), 2 + 2 + 1 + 1 + 2.1) << n;
    });
  }
}

// What it saves is not kept under recompute().
TEST(RingAttentionRanks, UnderRecompute) {
  const AttentionCase each{.options = {.causal = true}};
  check_on_ranks(
      each,
      zigzag_split(each.length, 2),
      [&](const SegmentParallel& segment) {
        return [&](const auto& q, const auto& k, const auto& v) {
          return recompute(ring(each, segment), q, k, v);
        };
      },
      "recomputed");
}

TEST(RingAttentionRanks, Processes) {
  run_process_ranks(3, [](World&) {
    const AttentionCase each{
        .length = 600, .options = {.causal = true}, .dtype = torch::kFloat};
    const SegmentParallel segment(nullptr, zigzag_split(each.length, 3));
    expect_close(
        results_of(ring(each, segment), parts_of(segment, whole_inputs(each))),
        parts_of(segment, expected_results(each)),
        "process");
  });
}

TEST(RingAttentionRanks, WhatDoesNotFitIsSaid) {
  run_ranks(2, [](World&) {
    const SequenceSplit split = contiguous_split(8, 2);
    const at::Tensor x = torch::zeros({1, 2, 4, 3});
    const at::Tensor longer = torch::zeros({1, 2, 5, 3});
    const at::Tensor three = torch::zeros({1, 3, 4, 3});
    EXPECT_THROW(ring_attention(x, longer, longer, split), InvalidArgument);
    EXPECT_THROW(ring_attention(three, x, x, split), InvalidArgument);
    EXPECT_THROW(ring_attention(x[0], x, x, split), InvalidArgument);
    EXPECT_THROW(
        ring_attention(x, x, x.to(torch::kDouble), split), InvalidArgument);
    EXPECT_THROW(
        ring_attention(x, x, x, contiguous_split(8, 3)), InvalidArgument);
    const auto with = [&](const AttentionOptions& options) {
      ring_attention(x, x, x, split, nullptr, options);
    };
    const at::Tensor mask = torch::zeros({1, 8});
    EXPECT_THROW(with({.key_padding_mask = mask}), InvalidArgument);
    EXPECT_THROW(
        with({.key_padding_mask = torch::zeros({1, 4}, torch::kLong)}),
        InvalidArgument);
    EXPECT_THROW(
        with({.key_padding_mask = torch::zeros({1, 4}).requires_grad_()}),
        InvalidArgument);
    EXPECT_THROW(with({.dropout = 1}), InvalidArgument);
    EXPECT_THROW(with({.dropout = -0.1}), InvalidArgument);
    // Gradients of gradients are refused, not wrong.
    const at::Tensor y = torch::rand({1, 2, 4, 3}).requires_grad_();
    const at::Tensor out = tiled_attention(y, y, y);
    EXPECT_THROW(
        torch::autograd::grad({out.sum()}, {y}, {}, true, true),
        InvalidArgument);
  });
}

} // namespace
} // namespace argosy::testing
