#include "argosy/common/deadline.h"

#include <gtest/gtest.h>

namespace argosy {
namespace {

using namespace std::chrono_literals;

TEST(Deadline, ExpiresAfterItsLimit) {
  EXPECT_FALSE(Deadline::after(1h).expired());
  EXPECT_TRUE(Deadline::after(0ms).expired());
  EXPECT_TRUE(Deadline::after(-5s).expired());
  EXPECT_EQ(Deadline::after(-5s).remaining(), 0ms);
}

TEST(Deadline, RemainingNeverExceedsTheLimitOrTheSlice) {
  const Deadline deadline = Deadline::after(10s);
  EXPECT_LE(deadline.remaining(), 10s);
  EXPECT_GT(deadline.remaining(), 9s);
  EXPECT_EQ(deadline.remaining(50ms), 50ms);
  EXPECT_EQ(Deadline::after(0ms).remaining(50ms), 1ms);
}

TEST(Deadline, EarlierKeepsTheSooner) {
  EXPECT_LE(Deadline::after(1h).earlier(1s).remaining(), 1s);
  EXPECT_LE(Deadline::after(1s).earlier(1h).remaining(), 1s);
}

TEST(Deadline, HugeLimitsDoNotOverflow) {
  EXPECT_FALSE(Deadline::after(std::chrono::nanoseconds::max()).expired());
}

TEST(Deadline, SpeaksInReadableUnits) {
  EXPECT_EQ(Deadline::after(250ms).limit_text(), "250 ms");
  EXPECT_EQ(Deadline::after(1500ms).limit_text(), "1.5 s");
  EXPECT_EQ(Deadline::after(30min).limit_text(), "30 min");
}

} // namespace
} // namespace argosy
