// Which ranks back which, and checkpoints that have each slice once.

#include "argosy/compat/redundancy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "tests/compat/strategy_oracle.h"

namespace argosy {
namespace {

using dtensor::Shape;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

ParallelStrategy strategy_with(std::map<std::string, ParallelLayout> layouts) {
  ParallelStrategy strategy;
  strategy.layouts = std::move(layouts);
  return strategy;
}

TEST(Redundancy, RanksThatHoldTheSameBackEachOther) {
  // MatMul ((2, 4), (4, 1)) on 8 ranks.
  const auto w = ParallelLayout::of({2, 4, 1}, {1, 0}, Shape{8, 4});
  const auto bias = ParallelLayout::of({2, 4, 1}, {-1}, Shape{4});
  const auto strategy = strategy_with({{"w", w}, {"bias", bias}});
  EXPECT_THAT(restore_rank_list(strategy, 0), ElementsAre(0, 4));
  EXPECT_THAT(restore_rank_list(strategy, 5), ElementsAre(1, 5));
  EXPECT_THAT(
      restore_rank_list(strategy_with({{"bias", bias}}), 3),
      ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  // All of the optimizer is sharded: no backup.
  EXPECT_THAT(
      restore_rank_list(
          strategy_with({{"w", with_optimizer_shards(w)}, {"bias", bias}}), 5),
      ElementsAre(5));
}

TEST(Redundancy, ShardsOfTwoAreMirrored) {
  // Replicas 0, 8, 16, 24; pairs of them share a slice.
  const auto strategy = strategy_with(
      {{"w", with_optimizer_shards(ParallelLayout::of({4, 8}, {0, -1}), 2)}});
  EXPECT_THAT(restore_rank_list(strategy, 0), ElementsAre(0, 16));
  EXPECT_THAT(restore_rank_list(strategy, 8), ElementsAre(8, 24));
}

TEST(Redundancy, StagesDoNotBackEachOther) {
  const auto w = ParallelLayout::of({2}, {-1}, Shape{4});
  const auto strategy = strategy_with({{"0-a", w}, {"1-b", w}, {"1-a", w}});
  EXPECT_THAT(restore_rank_list(strategy, 1), ElementsAre(0, 1));
  EXPECT_THAT(restore_rank_list(strategy, 2), ElementsAre(2, 3));
}

TEST(Redundancy, GroupInfoSurvivesAFile) {
  const TempDir folder;
  const auto file = folder.path() / "group_info.json";
  save_group_info(file, {{{"dp", {0, 4}}}, {0, 4}});
  EXPECT_THAT(restore_group_info_list(file), ElementsAre(0, 4));
  write_file(file, "{}");
  EXPECT_THROW(restore_group_info_list(file), CheckpointError);
  write_file(file, "\x0a");
  EXPECT_THROW(restore_group_info_list(file), CheckpointError);
  EXPECT_THROW(
      restore_group_info_list(folder.path() / "absent"), CheckpointError);
}

TEST(Redundancy, ParametersAreDealtInTurn) {
  const std::vector<std::string> names{"a", "b", "c", "d"};
  EXPECT_THAT(
      compat::deal(names, {0, 4}),
      UnorderedElementsAre(
          Pair(0, ElementsAre("a", "c")), Pair(4, ElementsAre("b", "d"))));
  EXPECT_THAT(
      compat::deal(names, {0, 1, 2}, 2),
      UnorderedElementsAre(
          Pair(0, ElementsAre("a", "c", "d")),
          Pair(1, ElementsAre("a", "b", "d")),
          Pair(2, ElementsAre("b", "c"))));
  EXPECT_THROW(compat::deal(names, {0}, 0), InvalidArgument);
}

TEST(Redundancy, EachSliceIsSavedSoManyTimes) {
  testing::RandomStrategies random(21);
  for (int round = 0; round < 50; ++round) {
    std::map<std::string, ParallelLayout> layouts;
    for (const char* name : {"a", "b", "c", "d", "e"}) {
      layouts[name] = random.layout(8, random.shape());
    }
    const int keep = random.number(1, 3);
    const auto saved = parameters_to_save(strategy_with(layouts), keep);
    for (const auto& [name, layout] : layouts) {
      for (int device = 0; device < 8; ++device) {
        const auto same = compat::optimizer_groups(layout, device).mirror;
        const auto copies = std::ranges::count_if(
            same, [&](int rank) { return saved.at(rank).contains(name); });
        EXPECT_EQ(copies, std::min<std::ptrdiff_t>(keep, std::ssize(same)));
      }
    }
  }
}

TEST(Redundancy, WhatAFileLacksComesFromAnother) {
  testing::RandomStrategies random(22);
  const TempDir folder;
  std::map<std::string, ParallelLayout> layouts;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    layouts[name] = random.layout(6, {4, 6});
  }
  layouts["whole"] = ParallelLayout::of({6}, {-1}, Shape{5});
  const auto strategy = strategy_with(layouts);
  for (const auto& [rank, names] : parameters_to_save(strategy)) {
    testing::save_by_oracle(
        folder.path() / str("rank_", rank) / "n.safetensors",
        layouts,
        rank,
        &names);
  }
  for (int rank = 0; rank < 6; ++rank) {
    const auto dict = load_without_redundancy(folder.path(), strategy, rank);
    EXPECT_EQ(dict.size(), layouts.size());
    for (const auto& [name, layout] : layouts) {
      EXPECT_EQ(
          testing::words_of(dict.at(name).bytes),
          testing::values_of(
              name,
              testing::ElementOracle(layout).elements(
                  *layout.tensor_shape, rank)));
    }
  }
  // One slice of each parameter has but one file; remove the ones of `whole`.
  for (const auto& [rank, names] : parameters_to_save(strategy)) {
    if (names.contains("whole")) {
      remove_all(folder.path() / str("rank_", rank));
    }
  }
  try {
    load_without_redundancy(folder.path(), strategy, 0);
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no file has"));
  }
}

} // namespace
} // namespace argosy
