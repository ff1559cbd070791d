// When lines about progress appear, and what they say.

#include "argosy/checkpoint/progress_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace argosy::checkpoint {
namespace {

using std::chrono::milliseconds;
using ::testing::IsEmpty;

TEST(ProgressLog, SpeaksAfterTwoSecondsAndThenEveryFive) {
  const ProgressLog::Clock::time_point begin;
  ProgressLog log("[checkpoint.save] step 7", true, begin);
  const auto line = [&](int ms) {
    return log.next_line(
        1'000'000'000, 4'000'000'000, begin + milliseconds(ms));
  };
  EXPECT_THAT(line(1900), IsEmpty());
  EXPECT_EQ(
      line(2000),
      "[checkpoint.save] step 7: 1.00 of 4.00 GB of this rank, 0.50 GB/s, "
      "about 7 s left");
  EXPECT_THAT(line(6900), IsEmpty());
  EXPECT_THAT(line(7100), ::testing::Not(IsEmpty()));
}

TEST(ProgressLog, OfOtherRanksIsSilent) {
  const ProgressLog::Clock::time_point begin;
  ProgressLog log("x", false, begin);
  EXPECT_THAT(log.next_line(1, 2, begin + milliseconds(9000)), IsEmpty());
}

TEST(ProgressLog, KnowsNoEndBeforeTheFirstByte) {
  const ProgressLog::Clock::time_point begin;
  ProgressLog log("x", true, begin);
  EXPECT_EQ(
      log.next_line(0, 1'000'000'000, begin + milliseconds(4000)),
      "x: 0.00 of 1.00 GB of this rank, 0.00 GB/s");
}

} // namespace
} // namespace argosy::checkpoint
