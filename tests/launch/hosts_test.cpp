// `argosy run --hostfile`, through a real ssh and sshd.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "argosy/common/error.h"
#include "tests/launch/argosy_process.h"
#include "tests/launch/sshd_process.h"

namespace argosy::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

class Hosts : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { sshd_ = new SshdProcess; }
  static void TearDownTestSuite() {
    delete sshd_;
    sshd_ = nullptr;
  }

  Words sh(Words flags, const std::string& script) {
    const auto hostfile = folder_.path() / "hosts";
    write_file(hostfile, "127.0.0.2 slots=2\n127.0.0.3\n");
    flags.insert(
        flags.begin(),
        {"--hostfile", hostfile, "--ssh-args", sshd_->ssh_args()});
    return run_sh(flags, script);
  }

  static SshdProcess* sshd_;
  TempDir folder_;
};

SshdProcess* Hosts::sshd_ = nullptr;

TEST_F(Hosts, FormOneWorld) {
  ArgosyProcess job(
      sh({"--env", "WORD=a b"},
         "echo $RANK/$WORLD_SIZE $GROUP_RANK \"$WORD\" $OMP_NUM_THREADS; "
         "pwd > pwd.$RANK"));
  EXPECT_EQ(job.wait(), 0) << job.err() << sshd_->log();
  EXPECT_THAT(
      sorted_lines(job.out()),
      ElementsAre("0/3 0 a b 1", "1/3 0 a b 1", "2/3 1 a b 1"));
  // All ran in the folder where the command was given.
  for (const char* name : {"pwd.0", "pwd.1", "pwd.2"}) {
    EXPECT_EQ(read_file(job.folder() / name), job.folder().string() + "\n");
  }
}

TEST_F(Hosts, FailTogether) {
  ArgosyProcess job(
      sh({}, "echo $$ > pid.$RANK; [ $RANK = 2 ] && exit 5; exec sleep 60"));
  EXPECT_EQ(job.wait(), 5) << job.err();
  EXPECT_THAT(job.err(), HasSubstr("Root Cause"));
  EXPECT_THAT(job.err(), HasSubstr("argosy run: 127.0.0.3: exit code 5"));
  EXPECT_EQ(count_alive(read_pids(job.folder()), 2000), 0);
}

TEST_F(Hosts, EndWithTheCommand) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    ArgosyProcess job(
        sh({"--grace", "1"}, "echo $$ > pid.$RANK; exec sleep 60"));
    const auto pids = await_pids(job.folder(), 3);
    job.send(signal);
    EXPECT_EQ(job.wait(), 128 + signal);
    EXPECT_EQ(count_alive(pids, 2000), 0);
  }
}

TEST_F(Hosts, ShowTheirCommandsInADryRun) {
  ArgosyProcess job(sh({"--dry-run"}, "true"));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), HasSubstr("--node-rank=1"));
}

TEST_F(Hosts, NameAMissingHostfile) {
  ArgosyProcess job({"run", "--hostfile", "none", "true"});
  EXPECT_EQ(job.wait(), 2);
  EXPECT_THAT(job.err(), HasSubstr("--hostfile none: no such file"));
}

} // namespace
} // namespace argosy::testing
