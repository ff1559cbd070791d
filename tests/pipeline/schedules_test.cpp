#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "argosy/pipeline/step_text.h"
#include "argosy/pipeline/verify.h"
#include "tests/pipeline/each_schedule.h"

namespace argosy::pipeline {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> texts(const Schedule& schedule) {
  std::vector<std::string> result;
  for (const auto& steps : schedule.steps) {
    result.push_back(steps_text(steps));
  }
  return result;
}

// How many forwards each stage runs before its first backward.
std::vector<int> forwards_first(const Schedule& schedule) {
  std::vector<int> result;
  for (const auto& steps : schedule.steps) {
    const auto first =
        std::find_if(steps.begin(), steps.end(), [](const Step& step) {
          return step.pass != Pass::kForward;
        });
    result.push_back(static_cast<int>(first - steps.begin()));
  }
  return result;
}

TEST(Schedules, AreVerifiedForAllSizes) {
  int count = 0;
  for_each_schedule([&](const Schedule& schedule) {
    verify(schedule);
    ++count;
  });
  EXPECT_EQ(count, 10 * 6 * 12);
}

TEST(Schedules, RunEachPassInTheOrderOfMicrobatches) {
  for_each_schedule([](const Schedule& schedule) {
    for (const auto& steps : schedule.steps) {
      std::map<std::pair<Pass, int>, int> next;
      for (const Step& step : steps) {
        int& expected = next[{step.pass, step.chunk}];
        EXPECT_EQ(step.microbatch, expected++);
      }
    }
  });
}

TEST(Gpipe, RunsAllForwardsFirst) {
  EXPECT_THAT(
      texts(gpipe(2, 3)),
      ElementsAre("F0 F1 F2 B0 B1 B2", "F0 F1 F2 B0 B1 B2"));
  EXPECT_THAT(
      texts(gpipe(1, 2, 2)), ElementsAre("F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1"));
}

TEST(OneForwardOneBackward, AlternatesAfterTheWarmUp) {
  EXPECT_THAT(
      texts(one_forward_one_backward(3, 4)),
      ElementsAre(
          "F0 F1 F2 B0 F3 B1 B2 B3",
          "F0 F1 B0 F2 B1 F3 B2 B3",
          "F0 B0 F1 B1 F2 B2 F3 B3"));
  EXPECT_THAT(
      forwards_first(one_forward_one_backward(4, 8)), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(
      forwards_first(one_forward_one_backward(4, 2)), ElementsAre(2, 2, 2, 1));
}

TEST(Eager, RunsAheadOfTheStageAfter) {
  EXPECT_THAT(forwards_first(eager(4, 8)), ElementsAre(7, 5, 3, 1));
  EXPECT_THAT(forwards_first(eager(4, 4)), ElementsAre(4, 4, 3, 1));
}

TEST(Interleaved, WarmsUpByChunksAndStages) {
  // The last forward of the warm-up is the first of the steady phase.
  EXPECT_THAT(forwards_first(interleaved(4, 8, 2)), ElementsAre(11, 9, 7, 5));
  EXPECT_THAT(forwards_first(interleaved(4, 10, 2)), ElementsAre(13, 11, 9, 7));
}

TEST(Interleaved, TakesGroupsOfMicrobatchesThroughTheChunks) {
  EXPECT_EQ(
      steps_text(interleaved(2, 4, 2).steps[1]),
      "F0 F1 F0.1 B0.1 F1.1 B1.1 F2 B0 F3 B1 F2.1 B2.1 F3.1 B3.1 B2 B3");
  // The first group is the larger one.
  const auto steps = interleaved(2, 5, 2).steps[0];
  EXPECT_EQ(
      steps_text({steps.begin(), steps.begin() + 6}),
      "F0 F1 F2 F0.1 F1.1 F2.1");
}

TEST(ZeroBubbleH1, LeavesWeightsForTheEnd) {
  EXPECT_THAT(
      texts(zero_bubble_h1(3, 4)),
      ElementsAre(
          "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3",
          "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3",
          "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3"));
}

// Per stage s: p - s forwards, s pairs of I and F, m - p times I, W and F,
// then p - s times I and W, and s times W.
TEST(ZeroBubbleH1, HasThePassesOfPaddle) {
  const int p = 4;
  const int m = 7;
  const Schedule schedule = zero_bubble_h1(p, m);
  for (int s = 0; s < p; ++s) {
    std::string expected(static_cast<std::size_t>(p - s), 'F');
    const auto add = [&](int times, const char* what) {
      for (int i = 0; i < times; ++i) {
        expected += what;
      }
    };
    add(s, "IF");
    add(m - p, "IWF");
    add(p - s, "IW");
    add(s, "W");
    std::string passes;
    for (const Step& step : schedule.steps[static_cast<std::size_t>(s)]) {
      passes += letter_of(step.pass);
    }
    EXPECT_EQ(passes, expected);
  }
}

TEST(ZeroBubbleV, GoesDownAndUp) {
  const Schedule schedule = zero_bubble_v(2, 3);
  EXPECT_EQ(schedule.chunks, 2);
  EXPECT_EQ(schedule.order, PartOrder::kV);
  EXPECT_THAT(
      texts(schedule),
      ElementsAre(
          "F0 F1 F2 F0.1 I0.1 W0.1 F1.1 I1.1 W1.1 I0 W0 F2.1 I2.1 W2.1 I1 W1 "
          "I2 W2",
          "F0 F0.1 F1 F1.1 I0.1 W0.1 F2 I0 W0 F2.1 I1.1 W1.1 I1 I2.1 I2 W1 "
          "W2.1 W2"));
}

TEST(MakeSchedule, KnowsOtherSpellings) {
  EXPECT_EQ(make_schedule("FThenB", 2, 4), gpipe(2, 4));
  EXPECT_EQ(make_schedule("F-then-B", 2, 4), gpipe(2, 4));
  EXPECT_EQ(make_schedule("ZB-H1", 2, 4), zero_bubble_h1(2, 4));
  EXPECT_EQ(make_schedule("1F1B", 2, 4), one_forward_one_backward(2, 4));
  EXPECT_EQ(make_schedule("vpp", 2, 4, 3), interleaved(2, 4, 3));
  EXPECT_EQ(make_schedule("ZBVPP", 2, 4), zero_bubble_v(2, 4));
  EXPECT_EQ(make_schedule("zbv", 2, 4, 2), zero_bubble_v(2, 4));
}

TEST(MakeSchedule, RefusesWhatItCannotMake) {
  const auto message = [](const std::string& name, int p, int m, int v) {
    try {
      make_schedule(name, p, m, v);
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_THAT(
      message("2f2b", 2, 2, 1),
      ::testing::HasSubstr("gpipe (F-then-B), 1f1b, eager (Eager1F1B), "
                           "interleaved (VPP), zbh1, zbv (ZBVPP)"));
  EXPECT_THAT(message("1f1b", 0, 2, 1), ::testing::HasSubstr("0 stages"));
  EXPECT_THAT(message("zbh1", 2, 0, 1), ::testing::HasSubstr("0 microbatches"));
  EXPECT_THAT(message("vpp", 2, 2, 0), ::testing::HasSubstr("0 chunks"));
  EXPECT_THAT(message("1f1b", 2, 2, 2), ::testing::HasSubstr("2 chunks"));
}

TEST(StepText, ReadsWhatItWrites) {
  for_each_schedule([](const Schedule& schedule) {
    for (const auto& steps : schedule.steps) {
      EXPECT_EQ(parse_steps(steps_text(steps)), steps);
    }
  });
  for (const char* bad :
       {"X1", "F", "F1.", "F.1", "Fx", "F1.x", "F-1", "F1 "}) {
    EXPECT_THROW(parse_steps(bad), InvalidArgument) << bad;
  }
}

} // namespace
} // namespace argosy::pipeline
