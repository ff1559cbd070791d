#include "argosy/sharding/unit_plan.h"

#include <gtest/gtest.h>

#include "argosy/common/error.h"

namespace argosy::sharding {
namespace {

std::vector<ParameterInfo> gpt() {
  std::vector<ParameterInfo> all;
  for (const char* name :
       {"wte.weight",
        "blocks.0.attn.weight",
        "blocks.0.mlp.weight",
        "blocks.1.attn.weight",
        "blocks.1.mlp.weight",
        "head.weight"}) {
    all.push_back({.name = name, .count = 100});
  }
  return all;
}

std::vector<std::string> names_of(const std::vector<UnitMembers>& units) {
  std::vector<std::string> names;
  for (const UnitMembers& unit : units) {
    names.push_back(unit.name);
  }
  return names;
}

TEST(UnitPlan, BySizeGoesBackwards) {
  const auto units = members_by_size(gpt(), 800);
  ASSERT_EQ(units.size(), 3u);
  EXPECT_EQ(units[0].parameters, (std::vector<std::size_t>{5, 4}));
  EXPECT_EQ(units[2].parameters, (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(members_by_size(gpt(), 0).size(), 6u);
  auto frozen = gpt();
  frozen[5].trainable = false;
  EXPECT_EQ(
      members_by_size(frozen, 800)[0].parameters,
      (std::vector<std::size_t>{4, 3}));
}

TEST(UnitPlan, ByModuleTakesEntriesOfLists) {
  EXPECT_EQ(
      names_of(members_by_module(gpt(), {}, 0)),
      (std::vector<std::string>{"wte", "blocks.0", "blocks.1", "head"}));
  EXPECT_EQ(
      names_of(members_by_module(gpt(), {"blocks.*.mlp"}, 0)),
      (std::vector<std::string>{
          "wte", "blocks", "blocks.0.mlp", "blocks.1.mlp", "head"}));
  EXPECT_EQ(
      names_of(members_by_module(gpt(), {"blocks"}, 0)),
      (std::vector<std::string>{"wte", "blocks", "head"}));
  EXPECT_THROW(members_by_module(gpt(), {"layers.*"}, 0), InvalidArgument);
}

// Ranks may have other experts, fewer or none.
TEST(UnitPlan, ExpertsDoNotChangeTheUnitsOfOthers) {
  const auto others_of = [](const std::vector<ParameterInfo>& parameters,
                            const std::vector<UnitMembers>& units) {
    std::vector<std::vector<std::string>> all;
    for (const UnitMembers& unit : units) {
      std::vector<std::string> names;
      for (const std::size_t i : unit.parameters) {
        if (!parameters[i].is_expert) {
          names.push_back(parameters[i].name);
        }
      }
      if (!names.empty()) {
        all.push_back(names);
      }
    }
    return all;
  };
  const auto with = [](const std::vector<ParameterInfo>& experts) {
    std::vector<ParameterInfo> all = gpt();
    all.insert(all.begin() + 3, experts.begin(), experts.end());
    return all;
  };
  const auto expert = [](const char* name, std::int64_t count) {
    return ParameterInfo{.name = name, .count = count, .is_expert = true};
  };
  for (const auto& experts : std::vector<std::vector<ParameterInfo>>{
           {expert("moe.experts.0.weight", 500)},
           {expert("moe.experts.1.weight", 0)},
           {expert("blocks.0.moe.weight", 700), expert("moe.1.weight", 1)}}) {
    const auto parameters = with(experts);
    for (const std::size_t bytes : {0, 500, 800}) {
      EXPECT_EQ(
          others_of(parameters, members_by_size(parameters, bytes)),
          others_of(gpt(), members_by_size(gpt(), bytes)));
      EXPECT_EQ(
          others_of(parameters, members_by_module(parameters, {}, bytes)),
          others_of(gpt(), members_by_module(gpt(), {}, bytes)));
    }
  }
  const auto parameters = with({expert("blocks.0.moe.weight", 700)});
  EXPECT_EQ(
      members_by_module(parameters, {}, 0)[1].parameters,
      (std::vector<std::size_t>{1, 2, 3}));
}

TEST(UnitPlan, FusionIdsAreUnits) {
  auto parameters = gpt();
  parameters[1].comm_fusion = parameters[3].comm_fusion = 2; // both attentions
  parameters[5].comm_fusion = 0;
  const auto by_module = [](const std::vector<ParameterInfo>& rest) {
    return members_by_module(rest, {}, 0);
  };
  const auto units = members_by_fusion(parameters, by_module);
  EXPECT_EQ(
      names_of(units),
      (std::vector<std::string>{
          "wte",
          "blocks.0",
          "blocks.1",
          "blocks.0.attn.weight",
          "head.weight"}));
  EXPECT_EQ(units[2].parameters, (std::vector<std::size_t>{4}));
  EXPECT_EQ(units[3].parameters, (std::vector<std::size_t>{1, 3}));
  // Ranks hold slices of different sizes of what is split over them.
  parameters[3].is_distributed = true;
  EXPECT_EQ(members_by_fusion(parameters, by_module).size(), 6u);
  for (ParameterInfo& each : parameters) {
    each.comm_fusion = 1;
    each.is_distributed = false;
  }
  EXPECT_EQ(members_by_fusion(parameters, by_module).size(), 1u);
}

TEST(UnitPlan, SmallModulesGoWithTheirNeighbours) {
  const auto units = members_by_module(gpt(), {}, 401);
  EXPECT_EQ(names_of(units), (std::vector<std::string>{"wte", "blocks.1"}));
  EXPECT_EQ(units[0].parameters, (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_EQ(units[1].parameters, (std::vector<std::size_t>{3, 4, 5}));
}

TEST(UnitPlan, TypesAndFrozenParametersLieApart) {
  std::vector<ParameterInfo> all(4, {.name = "m.x", .count = 10});
  all[1].trainable = false;
  all[2] = {.name = "m.y", .count = 10, .element = 2, .type = "BFloat16"};
  const UnitPlan unit =
      plan_unit(all, {.name = "m", .parameters = {0, 1, 2, 3}}, 3);
  ASSERT_EQ(unit.buckets.size(), 3u);
  EXPECT_EQ(
      unit.buckets[0].entries,
      (std::vector<BucketEntry>{{0, 0, 10}, {3, 16, 10}}));
  EXPECT_EQ(unit.buckets[0].count, 48); // 26, in three parts of whole lines
  EXPECT_FALSE(unit.buckets[1].trainable);
  EXPECT_EQ(unit.buckets[2].count, 96);
}

// Ranks with parts of the same layers, which are not equal, must agree about
// the rest.
TEST(UnitPlan, PartsOfLayersDoNotMoveWhatIsWhole) {
  const auto plan = [](std::int64_t part) {
    std::vector<ParameterInfo> all = gpt();
    all[0].count = part;
    all[0].is_distributed = true;
    all[2].count = part;
    all[2].is_distributed = true;
    std::vector<Bucket> whole;
    for (const auto& units :
         {members_by_size(all, 800), members_by_module(all, {}, 500)}) {
      for (const UnitMembers& unit : units) {
        for (const Bucket& bucket : plan_unit(all, unit, 2).buckets) {
          if (!bucket.is_distributed) {
            whole.push_back(bucket);
          }
        }
      }
    }
    return whole;
  };
  EXPECT_EQ(plan(70), plan(60));
  EXPECT_EQ(plan(300), plan(1));
}

TEST(UnitPlan, PiecesCoverEveryElementOnce) {
  std::vector<ParameterInfo> all;
  for (const std::int64_t count : {1, 0, 17, 100, 3}) {
    all.push_back({.name = "m.x", .count = count});
  }
  for (const int ranks : {1, 2, 3, 5, 16}) {
    const UnitPlan unit =
        plan_unit(all, {.name = "m", .parameters = {0, 1, 2, 3, 4}}, ranks);
    std::vector<std::int64_t> next(all.size(), 0);
    for (int rank = 0; rank < ranks; ++rank) {
      for (const Piece& piece : pieces_of(unit.buckets[0], rank, ranks)) {
        EXPECT_EQ(piece.from, next[piece.parameter]);
        next[piece.parameter] += piece.count;
        EXPECT_LE(piece.in_part + piece.count, unit.buckets[0].count / ranks);
      }
    }
    EXPECT_EQ(next, (std::vector<std::int64_t>{1, 0, 17, 100, 3}));
  }
}

} // namespace
} // namespace argosy::sharding
