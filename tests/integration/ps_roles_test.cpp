// Real processes of jobs with parameter servers, started in each way.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/error.h"
#include "tests/launch/argosy_process.h"
#include "tests/support/command.h"
#include "tests/support/free_port.h"

namespace argosy::testing {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsSupersetOf;

std::vector<std::string> lines_of(int workers, int servers) {
  std::vector<std::string> lines;
  for (int i = 0; i < workers; ++i) {
    lines.push_back(str_format(
        "worker {}/{} of {} servers: as one process", i, workers, servers));
  }
  return lines;
}

// A shell that starts processes with variables of their own, and fails if one
// of them does.
struct Shell {
  std::string script = "set -e; pids=\"\"; ";

  void start(const std::string& variables) {
    script += variables + " " + ARGOSY_PS_ROLES + " & pids=\"$pids $!\"; ";
  }

  void expect(int workers, int servers) {
    const CommandResult result =
        run_command(script + "for pid in $pids; do wait $pid; done");
    EXPECT_TRUE(result.status.success()) << result.output;
    EXPECT_THAT(
        sorted_lines(result.output), IsSupersetOf(lines_of(workers, servers)))
        << result.output;
  }
};

TEST(PsRoles, ArgosyRunStartsServersAndWorkers) {
  ArgosyProcess job(
      {"run", "--server-num", "2", "--trainer-num", "4", ARGOSY_PS_ROLES});
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(sorted_lines(job.out()), ElementsAreArray(lines_of(4, 2)));
}

TEST(PsRoles, FluidsVariablesDo) {
  const std::string common = str_format(
      "PADDLE_PSERVER_PORT={} PADDLE_PSERVER_IPS=127.0.0.1,127.0.0.2 "
      "PADDLE_TRAINERS=2 OMP_NUM_THREADS=1",
      free_port());
  Shell shell;
  for (const int i : {1, 2}) {
    shell.start(str_format(
        "{} PADDLE_TRAINING_ROLE=PSERVER PADDLE_CURRENT_IP=127.0.0.{}",
        common,
        i));
  }
  for (const int i : {0, 1}) {
    shell.start(str_format(
        "{} PADDLE_TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID={}", common, i));
  }
  shell.expect(2, 2);
}

TEST(PsRoles, MindSporesVariablesDo) {
  const std::string common = str_format(
      "MS_SCHED_HOST=127.0.0.1 MS_SCHED_PORT={} MS_WORKER_NUM=2 "
      "MS_SERVER_NUM=1 OMP_NUM_THREADS=1",
      free_port());
  Shell shell;
  for (const char* role :
       {"MS_SCHED", "MS_PSERVER", "MS_WORKER", "MS_WORKER"}) {
    shell.start(str_format("{} MS_ROLE={}", common, role));
  }
  shell.expect(2, 1);
}

} // namespace
} // namespace argosy::testing
