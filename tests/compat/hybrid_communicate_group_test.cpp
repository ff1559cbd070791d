#include "argosy/compat/hybrid_communicate_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/comm/group.h"
#include "argosy/common/error.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/refusal.h"

namespace argosy {
namespace {

// data 2, pipe 1, sharding 2, sep 1, model 2.
CommunicateTopology eight() {
  return CommunicateTopology({2, 1, 2, 1, 2});
}

TEST(HybridCommunicateGroup, KnowsWhereARankStands) {
  testing::run_ranks(8, [](World& world) {
    const HybridCommunicateGroup hybrid(eight());
    const int rank = world.rank();
    EXPECT_EQ(hybrid.get_global_rank(), rank);
    EXPECT_EQ(hybrid.get_data_parallel_rank(), rank / 4);
    EXPECT_EQ(hybrid.get_sharding_parallel_rank(), rank / 2 % 2);
    EXPECT_EQ(hybrid.get_model_parallel_rank(), rank % 2);
    EXPECT_EQ(hybrid.get_model_parallel_world_size(), 2);
    EXPECT_EQ(hybrid.get_model_parallel_group_src_rank(), rank - rank % 2);
    EXPECT_EQ(hybrid.get_expert_parallel_rank(), 0);
    EXPECT_EQ(hybrid.get_expert_parallel_group()->nranks(), 1);
    EXPECT_EQ(hybrid.get_sep_parallel_group()->nranks(), 1);
    EXPECT_EQ(
        hybrid.get_data_parallel_group()->ranks(),
        (std::vector{rank % 4, rank % 4 + 4}));
    EXPECT_EQ(hybrid.get_data_parallel_world_size(), 2);
    EXPECT_EQ(hybrid.get_data_parallel_group_src_rank(), rank % 4);
    EXPECT_EQ(hybrid.get_sharding_parallel_world_size(), 2);
    EXPECT_EQ(
        hybrid.get_sharding_parallel_group()->get_group_rank(rank),
        rank / 2 % 2);
    EXPECT_EQ(
        hybrid.get_sharding_parallel_group_src_rank(), rank - rank / 2 % 2 * 2);
    // Alone on an axis of one.
    EXPECT_EQ(hybrid.get_sep_parallel_rank(), 0);
    EXPECT_EQ(hybrid.get_sep_parallel_group_src_rank(), rank);
    EXPECT_EQ(hybrid.get_expert_parallel_world_size(), 1);
    EXPECT_EQ(hybrid.get_expert_parallel_group_src_rank(), rank);
    EXPECT_EQ(hybrid.get_pipe_parallel_rank(), 0);
    EXPECT_EQ(hybrid.get_pipe_parallel_group_src_rank(), rank);
    EXPECT_EQ(
        hybrid.get_pp_mp_parallel_group()->ranks(),
        hybrid.get_model_parallel_group()->ranks());
    EXPECT_EQ(hybrid.get_check_parallel_group()->nranks(), 4);
    EXPECT_EQ(hybrid.get_check_parallel_group(true)->nranks(), 4);
    EXPECT_EQ(hybrid.get_parallel_mode(), ParallelMode::TENSOR_PARALLEL);
    EXPECT_TRUE(hybrid.is_first_stage() && hybrid.is_last_stage());
    EXPECT_EQ(hybrid.get_p2p_groups().next, nullptr);
  });
}

TEST(HybridCommunicateGroup, PutsStagesInARing) {
  testing::run_ranks(6, [](World& world) {
    HybridDegrees degrees;
    degrees.pp = 3;
    degrees.mp = 2;
    const auto hybrid =
        std::make_shared<HybridCommunicateGroup>(hybrid_topology(degrees, 6));
    const int rank = world.rank();
    EXPECT_EQ(hybrid->get_stage_id(), rank / 2);
    EXPECT_EQ(hybrid->get_rank_from_stage(2), 4 + rank % 2);
    const auto ring = hybrid->get_p2p_groups();
    EXPECT_EQ(ring.next_rank, (rank + 2) % 6);
    EXPECT_EQ(ring.prev_rank, (rank + 4) % 6);
    EXPECT_EQ(ring.next->nranks(), 2);
    EXPECT_EQ(get_hybrid_communicate_group(), nullptr);
    set_hybrid_communicate_group(hybrid);
    EXPECT_EQ(get_hybrid_communicate_group(), hybrid);
  });
}

TEST(HybridCommunicateGroup, RefusesAnotherWorld) {
  testing::run_ranks(2, [](World&) {
    EXPECT_THAT(
        testing::refusal([&] { HybridCommunicateGroup{eight()}; }),
        ::testing::HasSubstr("the topology has 8 ranks, and the world 2"));
  });
}

} // namespace
} // namespace argosy
