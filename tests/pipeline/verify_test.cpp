#include "argosy/pipeline/verify.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "argosy/pipeline/step_text.h"
#include "tests/pipeline/each_schedule.h"

namespace argosy::pipeline {
namespace {

using ::testing::HasSubstr;

Schedule of_texts(
    int microbatches, int chunks, const std::vector<std::string>& stages) {
  Schedule schedule{
      .name = "test",
      .stages = static_cast<int>(stages.size()),
      .microbatches = microbatches,
      .chunks = chunks};
  for (const std::string& steps : stages) {
    schedule.steps.push_back(parse_steps(steps));
  }
  return schedule;
}

std::string refusal(const Schedule& schedule) {
  try {
    verify(schedule);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing";
}

TEST(Verify, TakesWholeAndSplitBackwards) {
  EXPECT_EQ(
      refusal(of_texts(2, 1, {"F0 F1 B0 I1 W1", "F0 F1 I0 I1 W1 W0"})),
      "nothing");
}

TEST(Verify, SaysWhichStageWaitsForWhich) {
  EXPECT_THAT(
      refusal(of_texts(2, 1, {"F0 B0 F1 B1", "F0 F1 B0 B1"})),
      HasSubstr(
          "the stages wait for one another: "
          "stage 0 at its step 1 (B0) waits for stage 1 at its step 2 (B0); "
          "stage 1 at its step 1 (F1) waits for stage 0 at its step 2 (F1)"));
}

TEST(Verify, SeesAStageThatWaitsForItself) {
  EXPECT_THAT(
      refusal(of_texts(1, 1, {"F0 W0 I0"})),
      HasSubstr(
          "stage 0 at its step 1 (W0) waits for stage 0 at its step 2 (I0)"));
  EXPECT_THAT(
      refusal(of_texts(1, 1, {"B0 F0"})), HasSubstr("(B0) waits for stage 0"));
}

TEST(Verify, SeesStepsOutOfRange) {
  EXPECT_THAT(
      refusal(of_texts(1, 1, {"F0 B1"})),
      HasSubstr(
          "stage 0 at its step 1 (B1) has microbatch 1, expected 0 to 0"));
  EXPECT_THAT(
      refusal(of_texts(1, 1, {"F0.2 B0"})), HasSubstr("chunk 2, expected"));
  Schedule odd = of_texts(1, 1, {"F0 B0"});
  odd.stages = 2;
  EXPECT_THAT(refusal(odd), HasSubstr("steps of 1 stages, expected 2"));
  odd.stages = 1;
  odd.steps[0][0].pass = static_cast<Pass>(7);
  EXPECT_THAT(refusal(odd), HasSubstr("pass 7, expected 0 to 3"));
  odd.chunks = odd.microbatches = 1 << 20;
  EXPECT_THAT(refusal(odd), HasSubstr("a product of at most 1e+07"));
  odd.microbatches = 0;
  EXPECT_THAT(refusal(odd), HasSubstr("0 microbatches"));
}

TEST(Verify, SeesWhatIsMissingOrTwice) {
  EXPECT_THAT(
      refusal(of_texts(2, 1, {"F0 F1 B0 B1", "F0 F1 B0"})),
      HasSubstr("stage 1 runs part 1 for microbatch 1 with 1 forwards, 0 whole "
                "backwards"));
  EXPECT_THAT(refusal(of_texts(1, 1, {"F0 B0 W0"})), HasSubstr("1 of weights"));
  EXPECT_THAT(refusal(of_texts(1, 1, {"F0 I0"})), HasSubstr("0 of weights"));
  EXPECT_THAT(refusal(of_texts(1, 1, {"F0 F0 B0"})), HasSubstr("2 forwards"));
}

// A step that is dropped or doubled is always seen; two neighbours that change
// places are when one needs the other.
TEST(Verify, RefusesMutations) {
  for (const std::string& name : schedule_names()) {
    const Schedule good = make_schedule(name, 3, 4);
    for (std::size_t stage = 0; stage < 3; ++stage) {
      for (std::size_t i = 0; i < good.steps[stage].size(); ++i) {
        Schedule dropped = good;
        auto& steps = dropped.steps[stage];
        const Step step = steps[i];
        steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(i));
        EXPECT_THROW(verify(dropped), InvalidArgument);
        Schedule doubled = good;
        doubled.steps[stage].push_back(step);
        EXPECT_THROW(verify(doubled), InvalidArgument);
      }
      Schedule reversed = good;
      std::reverse(reversed.steps[stage].begin(), reversed.steps[stage].end());
      EXPECT_THROW(verify(reversed), InvalidArgument);
    }
  }
}

TEST(Verify, RefusesNeighboursThatNeedEachOther) {
  const Schedule good = one_forward_one_backward(2, 4);
  int refused = 0;
  for (std::size_t stage = 0; stage < 2; ++stage) {
    for (std::size_t i = 0; i + 1 < 8; ++i) {
      Schedule swapped = good;
      std::swap(swapped.steps[stage][i], swapped.steps[stage][i + 1]);
      const Step& first = good.steps[stage][i];
      const Step& second = good.steps[stage][i + 1];
      const bool needed = first.microbatch == second.microbatch;
      if (needed) {
        EXPECT_THROW(verify(swapped), InvalidArgument);
      }
      refused += refusal(swapped) == "nothing" ? 0 : 1;
    }
  }
  EXPECT_GE(refused, 4);
}

} // namespace
} // namespace argosy::pipeline
