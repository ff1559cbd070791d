#include "argosy/checkpoint/convert/plan.h"

#include <gmock/gmock.h>

#include "argosy/checkpoint/convert/name_rules.h"
#include "argosy/checkpoint/inspect/prune_plan.h"
#include "tests/support/refusal.h"

namespace argosy::checkpoint {
namespace {

using argosy::testing::refusal;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(NameRules, AppliesTheFirstRuleThatMatches) {
  const NameRules rules = NameRules::parse(
      "# comment\n"
      "\n"
      "^model/module\\. -> model/\n"
      "layer(\\d+)\\.(.*) -> blocks.$1.$2\n"
      "  drop ^optimizer/  \n"
      "\\.old$ ->\n",
      "rules.txt");
  EXPECT_EQ(rules.apply("model/module.layer1.w"), "model/layer1.w");
  EXPECT_EQ(rules.apply("model/layer12.w"), "model/blocks.12.w");
  EXPECT_EQ(rules.apply("optimizer/layer.w.exp_avg"), std::nullopt);
  EXPECT_EQ(rules.apply("model/x.old"), "model/x");
  EXPECT_EQ(rules.apply("model/other"), "model/other");
  EXPECT_EQ(NameRules().apply("a"), "a");
}

TEST(NameRules, NamesTheLineOfAMistake) {
  const auto message = [](const std::string& text) {
    return refusal([&] { NameRules::parse(text, "rules.txt"); });
  };
  EXPECT_THAT(
      message("a -> b\nno arrow"),
      AllOf(HasSubstr("rules.txt, line 2"), HasSubstr("no arrow")));
  EXPECT_THAT(
      message("\n(a -> b"), HasSubstr("line 2: \"(a\" is not a regular"));
  EXPECT_THAT(message("(a) -> $2"), HasSubstr("$2, but the expression has 1"));
  EXPECT_THAT(message(" -> b"), HasSubstr("line 1"));
  EXPECT_THAT(
      refusal([] { NameRules::parse(".* ->", "r").apply("abc"); }),
      HasSubstr("r, line 1: nothing is left"));
}

TEST(PlanShards, FillsFilesInOrder) {
  const std::vector<TensorInfo> tensors{
      {"a", DType::kF32, {10}}, // 40 bytes
      {"b", DType::kF32, {15}},
      {"c", DType::kF32, {100}},
      {"d", DType::kU8, {1}},
      {"e", DType::kU8, {99}}};
  EXPECT_THAT(
      plan_shards(tensors, 100),
      ElementsAre(ElementsAre(0, 1), ElementsAre(2), ElementsAre(3, 4)));
  EXPECT_THAT(plan_shards({}, 100), ElementsAre(ElementsAre()));
}

TEST(PlanSplit, CutsAlongTheDimsOfRules) {
  const std::vector<TensorInfo> tensors{
      {"model/a", DType::kF32, {5, 2}},
      {"model/b", DType::kF32, {2, 4}},
      {"model/scalar", DType::kF32, {}},
      {"rank/1/rng", DType::kU8, {3}}};
  const auto dims = NameRules::parse("a$ -> 0\nb$ -> -1\nscalar -> 0", "d");
  const auto plan = plan_split(tensors, 3, dims);
  ASSERT_EQ(plan.size(), 3u);
  // Chunks of 2 rows: 2, 2 and 1; of 2 columns: 2, 2 and none.
  EXPECT_THAT(
      plan[0],
      ElementsAre(
          PlannedPiece{0, {{0, 0}, {2, 2}}},
          PlannedPiece{1, {{0, 0}, {2, 2}}}));
  EXPECT_THAT(
      plan[1],
      ElementsAre(
          PlannedPiece{0, {{2, 0}, {2, 2}}},
          PlannedPiece{1, {{0, 2}, {2, 2}}},
          PlannedPiece{3, {{0}, {3}}}));
  EXPECT_THAT(
      plan[2],
      ElementsAre(
          PlannedPiece{0, {{4, 0}, {1, 2}}}, PlannedPiece{2, {{}, {}}}));
  EXPECT_THAT(
      refusal([&] { plan_split(tensors, 2, NameRules::parse("a -> 2", "d")); }),
      AllOf(HasSubstr("model/a"), HasSubstr("expected 0 to 1")));
}

std::vector<CheckpointEntry> five_checkpoints() {
  std::vector<CheckpointEntry> entries;
  for (int i = 1; i <= 5; ++i) {
    CheckpointEntry entry{.name = "step-" + std::to_string(10 * i)};
    entry.step = 10 * i;
    entry.committed = true;
    entry.values = {{"loss", i == 2 ? 0.1 : 1.0 * i}};
    entries.push_back(entry);
  }
  return entries;
}

std::vector<std::string> removed(
    const std::vector<CheckpointEntry>& entries, const PrunePolicy& policy) {
  std::vector<std::string> names;
  for (const PruneDecision& decision : plan_prune(entries, policy)) {
    if (!decision.keep) {
      names.push_back(decision.name);
    }
  }
  return names;
}

TEST(PlanPrune, KeepsLastEveryAndBest) {
  const auto entries = five_checkpoints();
  EXPECT_THAT(
      removed(entries, {.keep = {.last = 2}}),
      ElementsAre("step-10", "step-20", "step-30"));
  EXPECT_THAT(
      removed(entries, {.keep = {.every = 20}}),
      ElementsAre("step-10", "step-30"));
  EXPECT_THAT(
      removed(entries, {.keep = {.last = 1, .best = 1, .metric = "loss"}}),
      ElementsAre("step-10", "step-30", "step-40"));
  EXPECT_THAT(
      removed(
          entries,
          {.keep = {.best = 2, .metric = "loss", .lower_is_better = false}}),
      ElementsAre("step-10", "step-20", "step-30"));
  EXPECT_THAT(
      refusal([&] {
        removed(entries, {.keep = {.best = 1, .metric = "accuracy"}});
      }),
      HasSubstr("accuracy"));
  EXPECT_THAT(refusal([&] { removed(entries, {}); }), HasSubstr("--last"));
}

TEST(PlanPrune, NeverRemovesTheNewestGoodOne) {
  auto entries = five_checkpoints();
  entries[4].problem = "a file is missing";
  entries[3].committed = false;
  // The newest good one is the third; what is damaged or being written stays.
  EXPECT_THAT(
      removed(entries, {.keep = {.every = 1000}}),
      ElementsAre("step-10", "step-20"));
  entries[0].named = true;
  EXPECT_THAT(
      removed(entries, {.keep = {.every = 1000}}), ElementsAre("step-20"));
  for (CheckpointEntry& entry : entries) {
    entry.committed = false;
  }
  EXPECT_THAT(
      removed(entries, {.keep = {.last = 1}, .uncommitted = true}),
      ElementsAre());
}

TEST(PlanPrune, RemovesOldUncommittedOnesIfAsked) {
  auto entries = five_checkpoints();
  entries[1].committed = false;
  entries[4].committed = false;
  EXPECT_THAT(removed(entries, {.uncommitted = true}), ElementsAre("step-20"));
}

} // namespace
} // namespace argosy::checkpoint
