// From a job that hangs, through `argosy run`, to the rank to blame.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "tests/support/command.h"

namespace argosy {
namespace {

using argosy::testing::run_command;
using ::testing::HasSubstr;

TEST(Hang, RunSaysWhereTraceHangNamesTheRank) {
  const TempDir dir;
  const auto run = run_command(
      str("cd ",
          dir.path().string(),
          " && " ARGOSY_COMMAND " run -n 3 --log-dir logs " ARGOSY_HANG));
  EXPECT_NE(run.status.shell_code(), 0);
  std::smatch advice;
  ASSERT_TRUE(std::regex_search(
      run.output, advice, std::regex("argosy trace hang (\\S+)")))
      << run.output;
  for (const std::string& folder :
       {advice[1].str(), (dir.path() / "logs").string() + "/*"}) {
    const auto trace = run_command(str(ARGOSY_COMMAND " trace hang ", folder));
    EXPECT_EQ(trace.status.shell_code(), 0) << trace.output;
    EXPECT_THAT(
        trace.output, HasSubstr("collective 1: all_reduce of float32 [4, 3]"));
    EXPECT_THAT(trace.output, HasSubstr("rank 1 NEVER CALLED IT"));
    EXPECT_THAT(trace.output, HasSubstr("The others wait for rank 1."));
  }
}

} // namespace
} // namespace argosy
