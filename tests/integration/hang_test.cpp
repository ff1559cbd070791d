// From a job that hangs, through `argosy run`, to the rank to blame.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <list>
#include <regex>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/net.h"
#include "tests/launch/argosy_process.h"
#include "tests/support/command.h"

namespace argosy {
namespace {

using argosy::testing::ArgosyProcess;
using argosy::testing::eventually;
using argosy::testing::run_command;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Hang, RunSaysWhereTraceHangNamesTheRank) {
  const TempDir dir;
  const auto run = run_command(
      str("cd ",
          dir.path().string(),
          " && " ARGOSY_COMMAND " run -n 3 --log-dir logs " ARGOSY_HANG
          " pause 2000 auto"));
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

// Everything that a user sees of a job that hangs while it runs.
TEST(Hang, RunSaysWhoWaitsForWhomWhileItHangs) {
  ArgosyProcess job(
      {"run", "-n", "3", "-r", "3", ARGOSY_HANG, "pause", "100000", "auto"},
      {.env = {{"ARGOSY_HANG_WARNING", "1s"}}});
  std::smatch advice;
  std::string said;
  ASSERT_TRUE(eventually([&] {
    said = job.err();
    return std::regex_search(
        said, advice, std::regex("argosy trace hang --fresh (\\S+)\n"));
  })) << said;
  EXPECT_THAT(
      said,
      HasSubstr("all_reduce of float32 [4, 3], sum (collective 1 of group 1): "
                "ranks 0, 2 wait since "));
  EXPECT_THAT(said, HasSubstr("The others wait for rank 1.\n"));
  const std::string folder = advice[1].str();
  const auto jobs = run_command(ARGOSY_COMMAND " trace hang");
  EXPECT_EQ(jobs.status.shell_code(), 0) << jobs.output;
  EXPECT_THAT(jobs.output, HasSubstr("ranks 0-2 of 3\n"));
  EXPECT_THAT(
      jobs.output, HasSubstr("  argosy trace hang --fresh " + folder + "\n"));
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  // The command still works when the job is gone.
  const auto trace = run_command(str(ARGOSY_COMMAND " trace hang ", folder));
  EXPECT_THAT(trace.output, HasSubstr("rank 1 NEVER CALLED IT"));
}

TEST(Hang, RunSaysItWhenASignalEndsAJobThatHangs) {
  ArgosyProcess job(
      {"run",
       "-n",
       "3",
       "--log-dir",
       "logs",
       ARGOSY_HANG,
       "pause",
       "100000",
       "auto"},
      {.env = {{"ARGOSY_HANG_WARNING", "12s"}}}); // noted after one second
  ASSERT_TRUE(eventually([&] {
    return run_command(str("ls ", (job.folder() / "logs").string(), "/*/*"))
               .output.find("flight_waits_0") != std::string::npos;
  }));
  EXPECT_THAT(job.err(), Not(HasSubstr("wait")));
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  EXPECT_THAT(job.err(), HasSubstr("The others wait for rank 1.\n"));
  EXPECT_THAT(job.err(), HasSubstr("argosy trace hang /"));
}

// Two launchers that meet, with two ranks each.
class TwoNodes {
 public:
  explicit TwoNodes(const std::string& warning) {
    const std::string endpoint = str("127.0.0.1:", ReservedPort().port());
    for (int node = 0; node < 2; ++node) {
      nodes_.emplace_back(
          std::vector<std::string>{
              "run",
              "--rdzv-endpoint",
              endpoint,
              "--nnodes",
              "2",
              "--node-rank",
              std::to_string(node),
              "-n",
              "2",
              "--log-dir",
              "logs",
              ARGOSY_HANG,
              "pause",
              "100000",
              "auto"},
          argosy::testing::ProcessSetup{
              .env = {{"ARGOSY_HANG_WARNING", warning}}});
    }
  }

  ArgosyProcess& first() { return nodes_.front(); }
  ArgosyProcess& second() { return nodes_.back(); }

 private:
  std::list<ArgosyProcess> nodes_;
};

// Rank 1, for which the others wait, is on the first node.
TEST(HangOnTwoNodes, EachNodeSaysWhoWaitsForWhomOnAll) {
  TwoNodes job("1s");
  for (ArgosyProcess* node : {&job.first(), &job.second()}) {
    std::string said;
    ASSERT_TRUE(eventually([&] {
      said = node->err();
      return said.find("argosy trace hang --fresh ") != std::string::npos;
    })) << said;
    EXPECT_THAT(
        said,
        HasSubstr(
            "all_reduce of float32 [4, 3], sum (collective 1 of group 1): "
            "ranks 0, 2, 3 wait since "));
    EXPECT_THAT(said, HasSubstr("The others wait for rank 1.\n"));
    EXPECT_THAT(said, Not(HasSubstr("no record")));
  }
  job.second().send(SIGTERM);
  EXPECT_EQ(job.second().wait(), 128 + SIGTERM);
  EXPECT_NE(job.first().wait(), 0);
}

TEST(HangOnTwoNodes, ASignalToOneTellsOfAll) {
  TwoNodes job("12s"); // noted after one second
  ASSERT_TRUE(eventually([&] {
    return run_command(
               str("ls ", (job.second().folder() / "logs").string(), "/*/*"))
               .output.find("flight_waits_3") != std::string::npos;
  }));
  job.second().send(SIGTERM);
  EXPECT_EQ(job.second().wait(), 128 + SIGTERM);
  EXPECT_THAT(job.second().err(), HasSubstr("ranks 0, 2, 3 wait since "));
  EXPECT_THAT(job.second().err(), HasSubstr("The others wait for rank 1.\n"));
  EXPECT_NE(job.first().wait(), 0);
}

TEST(Hang, ARankThatLeftIsTheRootCauseAndHasNotDied) {
  for (const char* backend : {"auto", "gloo"}) {
    ArgosyProcess job(
        {"run", "-n", "3", ARGOSY_HANG, "leave", "30000", backend});
    EXPECT_EQ(job.wait(), 1);
    const std::string said = job.err();
    EXPECT_THAT(said, HasSubstr("rank 1 of group 1 has left with exit code 0"));
    EXPECT_THAT(said, Not(HasSubstr("died")));
    EXPECT_TRUE(std::regex_search(
        said,
        std::regex("Root Cause[^:]*:\n.*\n.*\n.*\n"
                   "  rank      : 1 \\(local_rank: 1\\)\n"
                   "  exitcode  : 0 ")))
        << said;
    EXPECT_THAT(
        said, HasSubstr("message   : left with exit code 0, but rank "));
  }
}

} // namespace
} // namespace argosy
