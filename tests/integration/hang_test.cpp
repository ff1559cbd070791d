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
#include "tests/store/etcd_process.h"
#include "tests/support/command.h"
#include "tests/support/free_port.h"

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

using Words = std::vector<std::string>;

Words meeting_anywhere() {
  return {"--rdzv-endpoint", str("127.0.0.1:", testing::free_port())};
}

Words at_a_fixed_address() {
  return {
      "--master-addr",
      "127.0.0.1",
      "--master-port",
      std::to_string(testing::free_port())};
}

// Two launchers with two ranks each.
class TwoNodes {
 public:
  explicit TwoNodes(
      const std::string& warning,
      const Words& meeting = meeting_anywhere(),
      const std::string& store = "") {
    for (int node = 0; node < 2; ++node) {
      Words words = {"run", "--nnodes", "2"};
      words.insert(words.end(), meeting.begin(), meeting.end());
      const Words rest = {
          "--node-rank",
          std::to_string(node),
          "-n",
          "2",
          "--log-dir",
          "logs",
          ARGOSY_HANG,
          "pause",
          "100000",
          "auto"};
      words.insert(words.end(), rest.begin(), rest.end());
      argosy::testing::ProcessSetup setup{
          .env = {{"ARGOSY_HANG_WARNING", warning}}};
      if (!store.empty()) {
        setup.env["ARGOSY_STORE"] = store;
      }
      nodes_.emplace_back(words, setup);
    }
  }

  // Nodes that do not meet may notice the end of each other's ranks first.
  void end_both() {
    for (ArgosyProcess& node : nodes_) {
      node.send(SIGTERM);
    }
    for (ArgosyProcess& node : nodes_) {
      EXPECT_NE(node.wait(), 0);
    }
  }

  ArgosyProcess& first() { return nodes_.front(); }
  ArgosyProcess& second() { return nodes_.back(); }

 private:
  std::list<ArgosyProcess> nodes_;
};

void expect_that_both_speak_of_all(TwoNodes& job) {
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
    EXPECT_THAT(said, Not(HasSubstr("nothing is known")));
  }
}

// Rank 1, for which the others wait, is on the first node.
TEST(HangOnTwoNodes, EachNodeSaysWhoWaitsForWhomOnAll) {
  TwoNodes job("1s");
  expect_that_both_speak_of_all(job);
  job.second().send(SIGTERM);
  EXPECT_EQ(job.second().wait(), 128 + SIGTERM);
  EXPECT_NE(job.first().wait(), 0);
}

// Launchers that do not meet ask each other where their workers meet.
TEST(HangOnTwoNodes, WithoutRendezvousTheyAskInTheStoreOfTheJob) {
  const argosy::testing::EtcdProcess etcd;
  TwoNodes job(
      "1s",
      at_a_fixed_address(),
      str("etcd://", etcd.endpoint().text(), "/hang"));
  expect_that_both_speak_of_all(job);
  job.end_both();
}

TEST(HangOnTwoNodes, WithoutAStoreTheySayWhatTheyDoNotKnow) {
  TwoNodes job("1s", at_a_fixed_address());
  for (ArgosyProcess* node : {&job.first(), &job.second()}) {
    EXPECT_TRUE(eventually([&] {
      return node->err().find(
                 "nothing is known of the ranks of 1 other node: launchers "
                 "ask each other if they have --rdzv-endpoint") !=
          std::string::npos;
    })) << node->err();
  }
  job.end_both();
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
