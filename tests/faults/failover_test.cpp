// Training on two nodes that meet in an etcd of three members. A member of etcd
// dies, and with it the launcher of node 0, whose rank serves the ranks' store:
// the other node goes on with a replacement, from the last checkpoint, to the
// same parameters.

#include <gtest/gtest.h>
#include <poll.h>

#include <csignal>
#include <random>

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

// What the training gives when nothing happens to it.
std::string undisturbed_result(const std::string& url) {
  const TempDir shared;
  Job job(url);
  ArgosyProcess& one = job.start(kTwoNodes, script(shared.path(), false));
  ArgosyProcess& other = job.start(kTwoNodes, script(shared.path(), false));
  EXPECT_EQ(one.wait(), 0) << one.err();
  EXPECT_EQ(other.wait(), 0) << other.err();
  return result_in(shared);
}

void kill_launcher(const ArgosyProcess& node) {
  const auto below = launch::descendants(node.pid()); // of the guard
  if (!below.empty()) {
    ::kill(below.front(), SIGKILL);
  }
}

TEST(Failover, SoakTrainingGoesOnWithoutTheNodeThatServed) {
  EtcdCluster etcd;
  const std::string url = str("etcd://", etcd.endpoints(), "/jobs");
  const std::string expected = undisturbed_result(url + "0");
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
  kill_launcher(victim);
  EXPECT_EQ(victim.wait(), 128 + SIGKILL);
  EXPECT_EQ(result_in(shared), "none");
  ArgosyProcess& heir = job.start(kTwoNodes, script(shared.path(), false));
  EXPECT_EQ(survivor.wait(), 0) << survivor.err();
  EXPECT_EQ(heir.wait(), 0) << heir.err();
  EXPECT_EQ(result_in(shared), expected);
}

// Any member of etcd and any launcher, at any moment from the start to the end,
// the launcher before the member or after it. The member comes back.
TEST(Failover, SoakAnyMemberAndAnyLauncherDieAtAnyMoment) {
  EtcdCluster etcd;
  const std::string url = str("etcd://", etcd.endpoints(), "/jobs");
  const std::string expected = undisturbed_result(url);
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    std::mt19937_64 random(seed);
    const auto some = [&](int most) {
      return static_cast<int>(random() % static_cast<std::uint64_t>(most));
    };
    const TempDir shared;
    Job job(str(url, seed));
    ArgosyProcess& one = job.start(kTwoNodes, script(shared.path(), true));
    ArgosyProcess& other = job.start(kTwoNodes, script(shared.path(), true));
    ArgosyProcess& victim = some(2) == 0 ? one : other;
    ArgosyProcess& survivor = &victim == &one ? other : one;
    const int member = some(etcd.size());
    ::poll(nullptr, 0, some(6000));
    if (some(2) == 0) {
      kill_launcher(victim);
      ::poll(nullptr, 0, some(500));
      etcd.member(member).stop();
    } else {
      etcd.member(member).stop();
      ::poll(nullptr, 0, some(500));
      kill_launcher(victim);
    }
    const int code = victim.wait();
    EXPECT_TRUE(code == 128 + SIGKILL || code == 0) << code << victim.err();
    // Where the job was done already, it waits for a job in vain.
    job.start(kTwoNodes, script(shared.path(), false));
    EXPECT_EQ(survivor.wait(), 0) << "seed " << seed << "\n" << survivor.err();
    EXPECT_EQ(result_in(shared), expected) << "seed " << seed;
    etcd.start(member);
  }
}

} // namespace
} // namespace argosy::testing
