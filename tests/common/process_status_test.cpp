#include "argosy/common/process_status.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "argosy/common/exit_note.h"
#include "argosy/common/file.h"

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

TEST(ExitNote, TellsWhatBecameOfARank) {
  const TempDir dir;
  const auto soon = [] { return Deadline::after(std::chrono::seconds(0)); };
  EXPECT_FALSE(read_exit_note(dir.path(), 3, soon()));
  for (const ProcessStatus status :
       {ProcessStatus{}, ProcessStatus{.exit_code = 4}, {.signal = SIGKILL}}) {
    write_exit_note(dir.path(), 3, status);
    EXPECT_EQ(read_exit_note(dir.path(), 3, soon()), status);
  }
  EXPECT_FALSE(read_exit_note(dir.path(), 1, soon()));
}

TEST(ExitNote, FindsTheRanksInATextThatSaysTheyLeft) {
  const std::string left = "has left with exit code 0";
  EXPECT_EQ(
      ranks_that_left("[comm.barrier] " + gone_text({0, 1, 2, 5}, "7", left)),
      (std::vector<int>{0, 1, 2, 5}));
  EXPECT_EQ(
      ranks_that_left(
          gone_text({4}, "7", "died") + " and " + gone_text({3}, "7", left) +
          " during operation 2 of rank 9"),
      std::vector<int>{3});
  EXPECT_TRUE(ranks_that_left(gone_text({4}, "7", "died")).empty());
  EXPECT_TRUE(ranks_that_left(left).empty());
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
