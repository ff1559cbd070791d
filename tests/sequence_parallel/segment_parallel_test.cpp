// Sequences that are spread over ranks, and attention by heads (Ulysses).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/comm/group.h"
#include "argosy/comm/traffic.h"
#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/dtensor/tensor/comm_debug.h"
#include "argosy/recomputation/recompute.h"
#include "argosy/testing/gtest_ranks.h"
#include "tests/sequence_parallel/attention_oracle.h"

namespace argosy::testing {
namespace {

using comm::OpKind;
using sequence_parallel::HeadRange;
using sequence_parallel::split_heads;
using ::testing::ElementsAre;

TEST(SplitHeads, WholeGroupsWhereThereAreEnough) {
  EXPECT_THAT(
      split_heads(6, 3, 2),
      ElementsAre(HeadRange{{0, 4}, {0, 2}}, HeadRange{{4, 2}, {2, 1}}));
  EXPECT_THAT(
      split_heads(3, 3, 2),
      ElementsAre(HeadRange{{0, 2}, {0, 2}}, HeadRange{{2, 1}, {2, 1}}));
}

TEST(SplitHeads, KeysForAllWhoNeedThem) {
  // Groups of three: the second rank's heads have keys 0, 1, 1.
  EXPECT_THAT(
      split_heads(6, 2, 3),
      ElementsAre(
          HeadRange{{0, 2}, {0, 1}},
          HeadRange{{2, 2}, {0, 2}},
          HeadRange{{4, 2}, {1, 1}}));
  EXPECT_THAT(
      split_heads(2, 1, 3),
      ElementsAre(
          HeadRange{{0, 1}, {0, 1}},
          HeadRange{{1, 1}, {0, 1}},
          HeadRange{{2, 0}, {1, 0}}));
  EXPECT_THROW(split_heads(3, 2, 2), InvalidArgument);
}

Attention ulysses(const AttentionCase& each, const SegmentParallel& segment) {
  return [&, options = own_options(segment, each.options)](
             const auto& q, const auto& k, const auto& v) {
    return segment.ulysses(q, k, v, options);
  };
}

void check(const AttentionCase& each, const SequenceSplit& split) {
  check_on_ranks(
      each,
      split,
      [&](const SegmentParallel& segment) { return ulysses(each, segment); },
      each.options.causal ? "causal" : "full");
}

TEST(UlyssesRanks, EqualsOneRank) {
  for (const bool causal : {false, true}) {
    const AttentionCase each{.options = {.causal = causal}};
    for (const int n : {1, 2, 3, 4}) { // 4 heads on 3 ranks too
      check(each, contiguous_split(each.length, n));
      check(each, zigzag_split(each.length, n));
    }
  }
}

TEST(UlyssesRanks, LengthsAndHeadsThatDoNotDivide) {
  for (const bool causal : {false, true}) {
    const AttentionCase odd{
        .heads = 5,
        .key_heads = 5,
        .length = 13,
        .value_dim = 4,
        .options = {.causal = causal, .scale = 0.3}};
    check(odd, contiguous_split(odd.length, 3));
    check(odd, zigzag_split(odd.length, 4));
    const AttentionCase few{
        .heads = 2, .key_heads = 2, .options = {.causal = causal}};
    check(few, contiguous_split(few.length, 4)); // two ranks have no heads
  }
}

TEST(UlyssesRanks, SharedKeys) {
  for (const long key_heads : {1, 2, 3, 6}) {
    const AttentionCase each{
        .heads = 6, .key_heads = key_heads, .options = {.causal = true}};
    for (const int n : {2, 3, 4}) {
      check(each, contiguous_split(each.length, n));
    }
  }
}

TEST(UlyssesRanks, ShorterTypes) {
  const AttentionCase each{
      .options = {.causal = true}, .dtype = torch::kBFloat16};
  check(each, contiguous_split(each.length, 2));
}

// 3 heads on 2 and 4 ranks, of which one has none.
TEST(UlyssesRanks, PaddingMasksAndDropout) {
  for (const bool causal : {false, true}) {
    for (const double dropout : {0.0, 0.3}) {
      for (const at::Tensor& mask : padding_masks(13)) {
        const AttentionCase each{
            .heads = 3,
            .key_heads = 3,
            .length = 13,
            .options = {
                .causal = causal,
                .key_padding_mask = mask,
                .dropout = dropout,
                .dropout_seed = 5}};
        check(each, contiguous_split(13, 2));
        check(each, zigzag_split(13, 4));
      }
    }
  }
}

TEST(UlyssesRanks, AnyAttention) {
  const AttentionCase each{
      .heads = 6,
      .key_heads = 3,
      .options = {
          .causal = true,
          .key_padding_mask = padding_masks(12)[2],
          .dropout = 0.2,
          .dropout_seed = 4}};
  check_on_ranks(
      each,
      contiguous_split(each.length, 2),
      [&](const SegmentParallel& segment) {
        return [&, options = own_options(segment, each.options)](
                   const auto& q, const auto& k, const auto& v) {
          return ulysses_attention(
              q, k, v, segment.split(), nullptr, options, plain_attention);
        };
      },
      "plain");
}

TEST(UlyssesRanks, UnderRecompute) {
  const AttentionCase each{.options = {.causal = true}};
  check_on_ranks(
      each,
      contiguous_split(each.length, 2),
      [&](const SegmentParallel& segment) {
        return [&](const auto& q, const auto& k, const auto& v) {
          return recompute(ulysses(each, segment), q, k, v);
        };
      },
      "recomputed");
}

// Two exchanges each way: query, key and value as one, and the output.
TEST(UlyssesRanks, BytesSent) {
  run_ranks(4, [](World&) {
    const AttentionCase each{.length = 16, .dtype = torch::kFloat};
    const SegmentParallel segment(nullptr, contiguous_split(each.length, 4));
    const std::vector<at::Tensor> x = own_inputs(segment, each);
    const at::Tensor out = segment.ulysses(x[0], x[1], x[2]);
    const comm::TrafficMeter& traffic = get_group(0)->traffic();
    EXPECT_EQ(
        traffic.of(OpKind::AllToAll), (comm::Traffic{2, 4 * x[0].nbytes()}));
    out.sum().backward();
    EXPECT_EQ(
        traffic.of(OpKind::AllToAll), (comm::Traffic{4, 8 * x[0].nbytes()}));
    EXPECT_EQ(traffic.total().calls, 4u);
  });
}

TEST(UlyssesRanks, Processes) {
  run_process_ranks(2, [](World&) {
    const AttentionCase each{.options = {.causal = true}};
    const SegmentParallel segment(nullptr, contiguous_split(each.length, 2));
    expect_close(
        results_of(
            ulysses(each, segment), parts_of(segment, whole_inputs(each))),
        parts_of(segment, expected_results(each)),
        "process");
  });
}

TEST(UlyssesRanks, WhatDoesNotFitIsSaid) {
  run_ranks(2, [](World&) {
    const SegmentParallel segment(nullptr, contiguous_split(8, 2));
    const at::Tensor x = torch::zeros({1, 2, 4, 3});
    EXPECT_THROW(
        segment.ulysses(x, x, torch::zeros({1, 2, 5, 3})), InvalidArgument);
    EXPECT_THROW(
        segment.ulysses(torch::zeros({1, 3, 4, 3}), x, x), InvalidArgument);
    EXPECT_THROW(segment.ulysses(x, x, x[0]), InvalidArgument);
    EXPECT_THROW(segment.part(x, 2), InvalidArgument);
    EXPECT_THROW(
        SegmentParallel(nullptr, contiguous_split(8, 3)), InvalidArgument);
  });
}

// Parts and the whole are each other's inverse, and so are their gradients.
TEST(SegmentParallelRanks, PartsAndTheWhole) {
  for (const SequenceSplit& split :
       {contiguous_split(7, 3), zigzag_split(7, 3), zigzag_split(2, 3)}) {
    run_ranks(3, [&](World& world) {
      const SegmentParallel segment(nullptr, split);
      const at::Tensor x = numbers({2, split.total(), 5}, 1).requires_grad_();
      const at::Tensor part = segment.part(x);
      EXPECT_TRUE(torch::equal(part, x.index_select(1, segment.positions())));
      EXPECT_EQ(part.size(1), split.length(world.rank()));
      const at::Tensor whole = segment.whole(part);
      EXPECT_TRUE(torch::equal(whole, x));
      const at::Tensor weights = numbers(x.sizes(), 2);
      (whole * weights).sum().backward();
      at::Tensor expected = torch::zeros_like(x);
      expected.index_copy_(
          1, segment.positions(), weights.index_select(1, segment.positions()));
      EXPECT_TRUE(torch::equal(x.grad(), expected));
    });
  }
}

// The same numbers as DTensors that are cut along the sequence give, with both
// placements before and after.
TEST(UlyssesDTensorRanks, EqualsAttentionOfDTensors) {
  run_ranks(4, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2, 2}, {"dp", "sep"});
    const Placements cut{Shard(0), Shard(2)};
    for (const bool causal : {false, true}) {
      const AttentionCase each{
          .options = {.causal = causal}, .dtype = torch::kFloat};
      const auto results = [&](const Attention& attention) {
        std::vector<at::Tensor> x = whole_inputs(each);
        for (at::Tensor& tensor : x) {
          tensor = shard_tensor(tensor, mesh, cut);
        }
        return results_of(attention, x);
      };
      const Results plain =
          results([&](const auto& q, const auto& k, const auto& v) {
            return std::get<0>(at::_scaled_dot_product_attention(
                q, k, v, {}, 0.0, false, causal));
          });
      const Results ours =
          results([&](const auto& q, const auto& k, const auto& v) {
            return ulysses_attention(q, k, v, "sep", {.causal = causal});
          });
      Results whole;
      for (std::size_t i = 0; i < ours.size(); ++i) {
        EXPECT_EQ(placements_of(ours[i]), cut);
        whole.push_back(full_tensor(ours[i]));
        EXPECT_TRUE(
            torch::allclose(whole[i], full_tensor(plain[i]), 1e-4, 1e-5));
      }
      expect_close(whole, expected_results(each), "dtensor");
    }
  });
}

TEST(UlyssesDTensorRanks, PaddingMasksAndDropout) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"sep"});
    for (const bool causal : {false, true}) {
      AttentionCase each{
          .options = {
              .causal = causal, .key_padding_mask = padding_masks(12)[0]}};
      const Results expected = expected_results(each);
      std::vector<at::Tensor> x = whole_inputs(each);
      for (at::Tensor& tensor : x) {
        tensor = shard_tensor(tensor, mesh, {Shard(2)});
      }
      const at::Tensor mask = each.options.key_padding_mask;
      for (const at::Tensor& given :
           {mask, shard_tensor(mask, mesh, {Shard(1)})}) {
        each.options.key_padding_mask = given;
        Results got = results_of(
            [&](const auto& q, const auto& k, const auto& v) {
              return ulysses_attention(q, k, v, "sep", each.options);
            },
            x);
        for (at::Tensor& result : got) {
          result = full_tensor(result);
        }
        expect_close(got, expected, "dtensor");
      }
      const at::Tensor ones = torch::ones_like(x[2]);
      const at::Tensor out = ulysses_attention(
          x[0], x[1], ones, "sep", {.causal = causal, .dropout = 0.5});
      EXPECT_NEAR(full_tensor(out).mean().item<double>(), 1, 0.2);
      EXPECT_GT(full_tensor(out).std().item<double>(), 0.1);
      EXPECT_THROW(
          ulysses_attention(
              x[0], x[1], x[2], "sep", {.dropout = 0.5, .dropout_seed = 1}),
          InvalidArgument);
    }
  });
}

// Four exchanges each way, along the axis only, and nothing gathered.
TEST(UlyssesDTensorRanks, ExchangesOnly) {
  run_ranks(2, [](World&) {
    dtensor_check_values(0); // so that only the attention communicates
    const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"sep"});
    std::vector<at::Tensor> x = whole_inputs({.dtype = torch::kFloat});
    for (at::Tensor& tensor : x) {
      tensor = shard_tensor(tensor, mesh, {Shard(2)}).requires_grad_();
    }
    const at::Tensor out =
        ulysses_attention(x[0], x[1], x[2], "sep", {.scale = 0.5});
    const comm::TrafficMeter& traffic = get_group(0)->traffic();
    EXPECT_EQ(traffic.of(OpKind::AllToAll).calls, 4u);
    (out * x[3].detach()).sum().backward();
    EXPECT_EQ(traffic.of(OpKind::AllToAll).calls, 8u);
    EXPECT_EQ(traffic.total().calls, 8u);
    EXPECT_THROW(
        ulysses_attention(reshard(x[0], mesh, {Shard(1)}), x[1], x[2], "sep"),
        InvalidArgument);
  });
}

} // namespace
} // namespace argosy::testing
