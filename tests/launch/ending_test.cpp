// How `argosy run` ends: signals, stubborn workers, and what they leave behind.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "argosy/common/error.h"
#include "argosy/launch/descendants.h"
#include "tests/launch/argosy_process.h"

namespace argosy::testing {
namespace {

using ::testing::HasSubstr;

// Two workers, each with a child in the same group and one in a session of its
// own, which ignores SIGTERM. Six processes, whose numbers are in pid.*.
constexpr const char* kFamily =
    "sleep 100 & echo $! > pid.$RANK.child\n"
    "setsid sh -c 'trap \"\" TERM; echo $$ > pid.'$RANK'.session; "
    "exec sleep 100' &\n"
    "echo $$ > pid.$RANK; wait";

TEST(Ending, ForwardsASignalAndExitsByIt) {
  ArgosyProcess job(run_sh(
      {"-n", "2"},
      "trap 'echo got; exit 0' TERM; echo $$ > pid.$RANK; "
      "while :; do sleep 0.01; done"));
  await_pids(job.folder(), 2);
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  EXPECT_EQ(job.out(), "got\ngot\n");
}

TEST(Ending, LeavesWorkersThatDieOfTheSignalOutOfTheSummary) {
  ArgosyProcess job(run_sh({"-n", "2"}, "echo $$ > pid.$RANK; exec sleep 60"));
  await_pids(job.folder(), 2);
  job.send(SIGINT);
  EXPECT_EQ(job.wait(), 128 + SIGINT);
  EXPECT_EQ(job.err(), "");
}

TEST(Ending, ForwardsUserSignalsWithoutEnding) {
  ArgosyProcess job(run_sh(
      {},
      "trap 'echo saved; exit 0' USR1; echo $$ > pid.0; "
      "while :; do sleep 0.01; done"));
  await_pids(job.folder(), 1);
  job.send(SIGUSR1);
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "saved\n");
}

TEST(Ending, KillsAtTheSecondSignal) {
  ArgosyProcess job(run_sh(
      {},
      "trap 'echo $$ > asked.0' TERM; echo $$ > pid.0; "
      "while :; do sleep 0.01; done"));
  const auto pids = await_pids(job.folder(), 1);
  job.send(SIGTERM);
  await_pids(job.folder(), 1, "asked.");
  // Signals that follow each other at once count as one; so send until it is
  // over, which is long before the grace period is.
  EXPECT_TRUE(eventually([&] {
    job.send(SIGTERM);
    return !is_alive(job.pid());
  }));
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  EXPECT_EQ(count_alive(pids, 0), 0);
}

TEST(Ending, KillsWorkersThatIgnoreItAfterTheGracePeriod) {
  ArgosyProcess job(run_sh(
      {"-n", "2", "--grace", "300ms"},
      "trap '' TERM; echo $$ > pid.$RANK; [ $RANK = 0 ] || "
      "{ until [ -s pid.0 ]; do :; done; exit 3; }; "
      "while :; do sleep 0.01; done"));
  EXPECT_EQ(job.wait(), 3);
  EXPECT_EQ(count_alive(await_pids(job.folder(), 2), 0), 0);
}

TEST(Ending, LeavesNothingBehindASuccess) {
  ArgosyProcess job(run_sh(
      {"--grace", "200ms"},
      "sleep 100 & echo $! > pid.1; setsid sh -c 'trap \"\" TERM; "
      "echo $$ > pid.2; exec sleep 100' & until [ -s pid.2 ]; do :; done"));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(count_alive(await_pids(job.folder(), 2), 0), 0);
}

TEST(Ending, LeavesNothingBehindASignal) {
  ArgosyProcess job(run_sh({"-n", "2", "--grace", "200ms"}, kFamily));
  const auto pids = await_pids(job.folder(), 6);
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  EXPECT_EQ(count_alive(pids, 0), 0);
}

TEST(Ending, LeavesNothingWhenTheCommandIsKilled) {
  ArgosyProcess job(run_sh({"-n", "2"}, kFamily));
  auto pids = await_pids(job.folder(), 6);
  for (const pid_t pid : launch::descendants(job.pid())) {
    pids.push_back(pid); // the launcher proper too
  }
  job.send(SIGKILL);
  EXPECT_EQ(job.wait(), 128 + SIGKILL);
  EXPECT_EQ(count_alive(pids, 2000), 0);
}

TEST(Ending, LeavesNothingWhenTheLauncherIsKilled) {
  ArgosyProcess job(run_sh({"-n", "2"}, kFamily));
  const auto pids = await_pids(job.folder(), 6);
  ::kill(launch::descendants(job.pid()).at(0), SIGKILL);
  EXPECT_EQ(job.wait(), 128 + SIGKILL);
  EXPECT_EQ(count_alive(pids, 0), 0);
}

TEST(Ending, KillsWhatStartedWhenALaterWorkerCannotStart) {
  // Each worker takes four files of the launcher's; the last ones find none.
  ArgosyProcess job(
      run_sh({"-n", "4", "-t", "3"}, "echo $$ > pid.$RANK; exec sleep 60"),
      {.before = {"prlimit", "--nofile=24"}});
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.err(), HasSubstr("Too many open files"));
  EXPECT_EQ(count_alive(read_pids(job.folder()), 0), 0);
}

TEST(Ending, FollowsStandardInputWhenAsked) {
  // The input is a file, so it is at its end at once.
  ArgosyProcess job(run_sh({"--exit-with-stdin"}, "exec sleep 60"));
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
}

} // namespace
} // namespace argosy::testing
