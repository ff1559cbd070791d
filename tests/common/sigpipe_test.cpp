#include "argosy/common/sigpipe.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>

namespace argosy {
namespace {

// A write to a pipe that nobody reads: what SIGPIPE is for.
int error_of_a_vain_write() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  ::close(ends[0]);
  const auto written = ::write(ends[1], "x", 1);
  const int error = written < 0 ? errno : 0;
  ::close(ends[1]);
  return error;
}

TEST(WithoutSigpipe, AVainWriteFailsAndTheProcessLives) {
  {
    const WithoutSigpipe guard;
    EXPECT_EQ(error_of_a_vain_write(), EPIPE);
  }
  {
    const WithoutSigpipe guard; // the first has left nothing behind
    const WithoutSigpipe inner;
    EXPECT_EQ(error_of_a_vain_write(), EPIPE);
  }
}

TEST(WithoutSigpipe, ThreadsThatBeginWithinStayProtected) {
  std::thread thread;
  {
    const WithoutSigpipe guard;
    thread = std::thread([] {
      ::usleep(10'000);
      EXPECT_EQ(error_of_a_vain_write(), EPIPE);
    });
  }
  thread.join();
}

TEST(WithoutSigpipeDeathTest, ElsewhereTheSignalIsTheUsers) {
  EXPECT_EXIT(
      {
        { const WithoutSigpipe guard; }
        error_of_a_vain_write();
      },
      ::testing::KilledBySignal(SIGPIPE),
      "");
}

} // namespace
} // namespace argosy
