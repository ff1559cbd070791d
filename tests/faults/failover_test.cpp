// Training on two nodes that meet in an etcd of three members. A member of etcd
// dies, and with it the launcher of node 0, whose rank serves the ranks' store:
// the other node goes on with a replacement, from the last checkpoint, to the
// same parameters.

#include <gtest/gtest.h>

#include <csignal>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/launch/descendants.h"
#include "tests/launch/argosy_process.h"
#include "tests/launch/job.h"
#include "tests/store/etcd_process.h"

namespace argosy::testing {
namespace {

const Words kTwoNodes = {
    "--nnodes",
    "2",
    "--max-restarts",
    "3",
    "--rdzv-conf",
    "keep_alive_timeout=3,last_call_timeout=1"};

// A rank of a node. Each gradient takes half a second, so that there is time to
// hurt the job.
std::string script(const std::filesystem::path& shared, bool slow) {
  return str(
      "echo $GROUP_RANK >> group_rank; export OMP_NUM_THREADS=1 ",
      slow ? "ARGOSY_FAULT=data_parallel.bucket:delay:all" : "",
      "; exec ",
      ARGOSY_FAULT_JOB,
      " data_parallel ",
      shared.string());
}

std::string result_in(const TempDir& shared) {
  return read_file(shared.path() / "result").value_or("none");
}

bool has_checkpoint(const TempDir& shared) {
  return std::filesystem::exists(shared.path() / "saved" / "latest");
}

TEST(Failover, SoakTrainingGoesOnWithoutTheNodeThatServed) {
  EtcdCluster etcd;
  const std::string url = str("etcd://", etcd.endpoints(), "/jobs");
  const TempDir undisturbed;
  {
    Job job(url + "0");
    ArgosyProcess& one =
        job.start(kTwoNodes, script(undisturbed.path(), false));
    ArgosyProcess& other =
        job.start(kTwoNodes, script(undisturbed.path(), false));
    ASSERT_EQ(one.wait(), 0) << one.err();
    ASSERT_EQ(other.wait(), 0) << other.err();
  }
  const TempDir shared;
  Job job(url + "1");
  ArgosyProcess& one = job.start(kTwoNodes, script(shared.path(), true));
  ArgosyProcess& other = job.start(kTwoNodes, script(shared.path(), true));
  ASSERT_TRUE(eventually([&] { return has_checkpoint(shared); }))
      << one.err() << other.err();
  const bool is_first =
      read_file(one.folder() / "group_rank").value_or("").starts_with('0');
  ArgosyProcess& victim = is_first ? one : other;
  ArgosyProcess& survivor = is_first ? other : one;
  etcd.member(etcd.leader()).stop();
  ::kill(launch::descendants(victim.pid()).at(0), SIGKILL);
  EXPECT_EQ(victim.wait(), 128 + SIGKILL);
  EXPECT_EQ(result_in(shared), "none");
  ArgosyProcess& heir = job.start(kTwoNodes, script(shared.path(), false));
  EXPECT_EQ(survivor.wait(), 0) << survivor.err();
  EXPECT_EQ(heir.wait(), 0) << heir.err();
  EXPECT_EQ(result_in(shared), result_in(undisturbed));
}

} // namespace
} // namespace argosy::testing
