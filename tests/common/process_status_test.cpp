#include "argosy/common/process_status.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace argosy {
namespace {

TEST(ProcessStatus, SpeaksAsAShellDoes) {
  const auto failed = ProcessStatus::from_wait(std::system("exit 3"));
  EXPECT_EQ(failed.text(), "exit code 3");
  EXPECT_EQ(failed.shell_code(), 3);
  EXPECT_FALSE(failed.success());
  const ProcessStatus killed{.signal = SIGKILL};
  EXPECT_EQ(killed.text(), "killed by signal 9 (SIGKILL)");
  EXPECT_EQ(killed.shell_code(), 137);
  EXPECT_TRUE(ProcessStatus{}.success());
}

TEST(Signals, ParseByNameAndNumber) {
  EXPECT_EQ(parse_signal("SIGTERM"), SIGTERM);
  EXPECT_EQ(parse_signal("USR1"), SIGUSR1);
  EXPECT_EQ(parse_signal("2"), SIGINT);
  EXPECT_FALSE(parse_signal("SIGNOPE"));
  EXPECT_FALSE(parse_signal("0"));
  EXPECT_FALSE(parse_signal("999"));
  EXPECT_EQ(signal_name(SIGHUP), "SIGHUP");
}

} // namespace
} // namespace argosy
