// Jobs without a single point of failure: launchers that meet in an etcd of
// three members, any of which dies, and launchers that die or are stopped.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "argosy/common/error.h"
#include "argosy/launch/descendants.h"
#include "argosy/store/etcd_kv.h"
#include "tests/launch/argosy_process.h"
#include "tests/launch/job.h"
#include "tests/store/etcd_process.h"

namespace argosy::testing {
namespace {

using ::testing::HasSubstr;

// Runs until it is started again, and says each time how often it was.
constexpr const char* kUntilRestarted =
    "echo $TORCHELASTIC_RESTART_COUNT $GROUP_RANK/$GROUP_WORLD_SIZE >> counts\n"
    "echo $$ > pid.$TORCHELASTIC_RESTART_COUNT\n"
    "[ $TORCHELASTIC_RESTART_COUNT -ge 1 ] && exit 0\n"
    "exec sleep 60";

Words two_nodes(
    const std::string& nodes, int restarts, int keep_alive_seconds = 2) {
  return {
      "--nnodes",
      nodes,
      "--max-restarts",
      std::to_string(restarts),
      "--rdzv-conf",
      str("keep_alive_timeout=", keep_alive_seconds, ",last_call_timeout=1")};
}

std::string url_of(const EtcdCluster& etcd) {
  return str("etcd://", etcd.endpoints(), "/jobs");
}

pid_t launcher_of(const ArgosyProcess& node) {
  return launch::descendants(node.pid()).at(0); // its parent is the guard
}

std::string counts_of(const ArgosyProcess& node) {
  return read_file(node.folder() / "counts").value_or("");
}

// Which of the two is node 0, by what its worker wrote.
bool is_first(const ArgosyProcess& node) {
  return counts_of(node).starts_with("0 0/");
}

TEST(Failover, AJobGoesOnWhileEachMemberOfEtcdDiesInTurn) {
  EtcdCluster etcd;
  Job job(url_of(etcd));
  const std::string script =
      "echo $TORCHELASTIC_RESTART_COUNT >> counts; echo $$ > pid.0\n"
      "until [ -e go ]; do sleep 0.05; done";
  // It may not even restart. The lease outlasts an election on a busy machine.
  const Words flags = two_nodes("2", 0, 15);
  ArgosyProcess& one = job.start(flags, script);
  ArgosyProcess& other = job.start(flags, script);
  await_pids(one.folder(), 1);
  await_pids(other.folder(), 1);
  for (int kill = 0; kill < etcd.size(); ++kill) {
    const int victim = etcd.leader();
    etcd.member(victim).stop();
    const int next = etcd.leader(); // the others have agreed on one
    EXPECT_NE(next, victim);
    etcd.start(victim);
    store::EtcdKv({etcd.member(victim).endpoint()}, "ping")
        .ping(Deadline::after(std::chrono::seconds(20)));
  }
  // A member that hangs is worse than a dead one: its connections stay.
  const int frozen = etcd.leader();
  etcd.member(frozen).freeze(true);
  for (ArgosyProcess* node : {&one, &other}) {
    write_file(node->folder() / "go", "");
  }
  EXPECT_EQ(one.wait(), 0) << one.err();
  EXPECT_EQ(other.wait(), 0) << other.err();
  EXPECT_EQ(counts_of(one), "0\n");
  EXPECT_EQ(counts_of(other), "0\n");
  etcd.member(frozen).freeze(false);
}

TEST(Failover, AJobRestartsAloneWithoutTheNodeThatServed) {
  EtcdCluster etcd;
  Job job(url_of(etcd));
  const Words flags = two_nodes("1:2", 2);
  ArgosyProcess& one = job.start(flags, kUntilRestarted);
  ArgosyProcess& other = job.start(flags, kUntilRestarted);
  await_pids(one.folder(), 1);
  await_pids(other.folder(), 1);
  // Node 0's worker serves the ranks' store.
  ArgosyProcess& victim = is_first(one) ? one : other;
  ArgosyProcess& survivor = is_first(one) ? other : one;
  etcd.member(etcd.leader()).stop(); // at the worst moment
  ::kill(launcher_of(victim), SIGKILL);
  EXPECT_EQ(victim.wait(), 128 + SIGKILL);
  EXPECT_EQ(survivor.wait(), 0) << survivor.err();
  EXPECT_EQ(counts_of(survivor), "0 1/2\n1 0/1\n");
}

TEST(Failover, AnotherLauncherTakesThePlaceOfADeadOne) {
  EtcdCluster etcd;
  Job job(url_of(etcd));
  const Words flags = two_nodes("2", 2);
  ArgosyProcess& one = job.start(flags, kUntilRestarted);
  ArgosyProcess& other = job.start(flags, kUntilRestarted);
  await_pids(one.folder(), 1);
  await_pids(other.folder(), 1);
  ArgosyProcess& victim = is_first(one) ? one : other;
  ArgosyProcess& survivor = is_first(one) ? other : one;
  ::kill(launcher_of(victim), SIGKILL);
  EXPECT_EQ(victim.wait(), 128 + SIGKILL);
  ArgosyProcess& heir = job.start(flags, kUntilRestarted);
  EXPECT_EQ(survivor.wait(), 0) << survivor.err();
  EXPECT_EQ(heir.wait(), 0) << heir.err();
  EXPECT_THAT(counts_of(survivor), HasSubstr("/2\n1 "));
  EXPECT_THAT(counts_of(heir), HasSubstr("1 "));
}

// Stopped for longer than its lease: by a debugger, a suspended virtual
// machine, a swapping host.
void expect_stopped_launcher_joins_again(const std::string& endpoint) {
  Job job(endpoint);
  const Words flags = two_nodes("2", 2);
  // The first serves a tcp store.
  ArgosyProcess& first = job.start(flags, kUntilRestarted);
  ASSERT_TRUE(
      eventually([&] { return !launch::descendants(first.pid()).empty(); }));
  ArgosyProcess& second = job.start(flags, kUntilRestarted);
  await_pids(first.folder(), 1);
  await_pids(second.folder(), 1);
  const pid_t launcher = launcher_of(second);
  ::kill(launcher, SIGSTOP);
  // The other gives it up, and waits for it to come back.
  EXPECT_TRUE(eventually([&] {
    return first.err().find("gone, or was silent") != std::string::npos;
  }));
  ::kill(launcher, SIGCONT);
  EXPECT_EQ(first.wait(), 0) << first.err();
  EXPECT_EQ(second.wait(), 0) << second.err();
  EXPECT_THAT(counts_of(second), HasSubstr("/2\n1 "));
}

TEST(Failover, AStoppedLauncherJoinsAgainOverTcp) {
  expect_stopped_launcher_joins_again("");
}

TEST(Failover, AStoppedLauncherJoinsAgainInEtcd) {
  EtcdCluster etcd;
  expect_stopped_launcher_joins_again(url_of(etcd));
}

} // namespace
} // namespace argosy::testing
