// Several nodes: several `argosy run` commands that meet.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <iostream>
#include <optional>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/net.h"
#include "argosy/common/text.h"
#include "argosy/launch/descendants.h"
#include "tests/launch/argosy_process.h"
#include "tests/launch/job.h"
#include "tests/store/etcd_process.h"
#include "tests/store/servers.h"

namespace argosy::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void expect_one_world(const std::string& endpoint) {
  const char* script =
      "echo $RANK/$WORLD_SIZE $GROUP_RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE; "
      "echo $MASTER_ADDR:$MASTER_PORT $PADDLE_TRAINER_ENDPOINTS > where";
  Job job(endpoint);
  ArgosyProcess& second = job.start(
      {"--nnodes", "2", "-n", "2", "--node-rank", "1", "--role", "x"}, script);
  ArgosyProcess& first = job.start(
      {"--nnodes", "2", "-n", "1", "--node-rank", "0", "--role", "x"}, script);
  EXPECT_EQ(first.wait(), 0) << first.err();
  EXPECT_EQ(second.wait(), 0) << second.err();
  EXPECT_EQ(first.out(), "0/3 0 0/1\n");
  EXPECT_THAT(second.out(), HasSubstr("1/3 1 0/2\n"));
  EXPECT_THAT(second.out(), HasSubstr("2/3 1 1/2\n"));
  EXPECT_EQ(
      read_file(first.folder() / "where"),
      read_file(second.folder() / "where"));
}

TEST(Nodes, MeetOverTcp) {
  expect_one_world("");
}

TEST(Nodes, MeetInEtcdAgainAndAgain) {
  EtcdProcess etcd;
  const std::string url = str("etcd://", etcd.endpoint().text(), "/jobs");
  expect_one_world(url);
  expect_one_world(url); // the same job id, after the first is over
}

TEST(Nodes, ComputeStaticRanks) {
  const ReservedPort free;
  ArgosyProcess node(
      {"run",
       "--nnodes",
       "3",
       "--node-rank",
       "2",
       "-n",
       "2",
       "--master-addr",
       "node0",
       "sh",
       "-c",
       "echo $RANK/$WORLD_SIZE $MASTER_ADDR:$MASTER_PORT"});
  EXPECT_EQ(node.wait(), 0);
  EXPECT_THAT(
      node.out(),
      AllOf(HasSubstr("4/6 node0:29500"), HasSubstr("5/6 node0:29500")));
}

TEST(Nodes, FailTogether) {
  Job job;
  ArgosyProcess& calm = job.start({"--nnodes", "2", "-n", "2"}, kSleep);
  ArgosyProcess& failing = job.start(
      {"--nnodes", "2"},
      "echo '{\"message\": {\"message\": \"Error: boom\"}}' > "
      "$TORCHELASTIC_ERROR_FILE; exit 9");
  EXPECT_EQ(failing.wait(), 9);
  EXPECT_EQ(calm.wait(), 9);
  EXPECT_THAT(
      calm.err(),
      AllOf(
          HasSubstr("Root Cause"),
          HasSubstr("host      : " + host_name()),
          HasSubstr("Error: boom")));
  EXPECT_EQ(count_alive(read_pids(calm.folder()), 0), 0);
}

TEST(Nodes, RestartTogether) {
  Job job;
  const Words flags = {"--nnodes", "2", "--max-restarts", "1"};
  const std::string script =
      "echo $TORCHELASTIC_RESTART_COUNT >> counts\n"
      "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0\n";
  ArgosyProcess& calm = job.start(flags, script + "exec sleep 60");
  const std::string seen = calm.folder() / "counts";
  ArgosyProcess& failing = job.start(
      flags, script + "until [ -s " + seen + " ]; do :; done; exit 1");
  EXPECT_EQ(calm.wait(), 0) << calm.err();
  EXPECT_EQ(failing.wait(), 0) << failing.err();
  EXPECT_EQ(read_file(calm.folder() / "counts"), "0\n1\n");
  EXPECT_EQ(read_file(failing.folder() / "counts"), "0\n1\n");
}

TEST(Nodes, NameALauncherThatVanished) {
  Job job;
  const Words flags = {"--nnodes", "2", "--rdzv-conf", "keep_alive_timeout=1"};
  // The first serves the store.
  ArgosyProcess& first = job.start({flags}, kSleep);
  ASSERT_TRUE(
      eventually([&] { return !launch::descendants(first.pid()).empty(); }));
  ArgosyProcess& second = job.start({flags}, kSleep);
  await_pids(first.folder(), 1);
  await_pids(second.folder(), 1);
  ArgosyProcess& victim = second;
  const pid_t launcher = launch::descendants(victim.pid()).at(0);
  ::kill(launcher, SIGKILL); // it cannot say goodbye
  EXPECT_EQ(victim.wait(), 128 + SIGKILL);
  EXPECT_EQ(first.wait(), 1);
  EXPECT_THAT(first.err(), HasSubstr("gone, or was silent"));
}

TEST(Nodes, EndWhenTheStoreVanishes) {
  EtcdProcess etcd;
  Job job(str("etcd://", etcd.endpoint().text(), "/jobs"));
  Words flags = {"--nnodes", "1", "--rdzv-conf", "keep_alive_timeout=1"};
  ArgosyProcess& node = job.start(flags, kSleep);
  const auto pids = await_pids(node.folder(), 1);
  etcd.stop();
  EXPECT_EQ(node.wait(), 1);
  EXPECT_THAT(node.err(), HasSubstr("lost the store at etcd://"));
  EXPECT_EQ(count_alive(pids, 0), 0);
}

TEST(Nodes, PassASignalOnToAll) {
  Job job;
  ArgosyProcess& one = job.start({"--nnodes", "2"}, kSleep);
  ArgosyProcess& other = job.start({"--nnodes", "2"}, kSleep);
  await_pids(one.folder(), 1);
  await_pids(other.folder(), 1);
  one.send(SIGTERM);
  EXPECT_EQ(one.wait(), 128 + SIGTERM);
  EXPECT_EQ(other.wait(), 128 + SIGTERM);
  EXPECT_THAT(other.err(), HasSubstr("got SIGTERM"));
}

TEST(Nodes, RefuseTheSameRankTwice) {
  Job job;
  // Two launchers of one machine: the second may be the first, started again.
  const Words flags = {
      "--nnodes",
      "3",
      "--node-rank",
      "1",
      "--rdzv-conf",
      "keep_alive_timeout=1"};
  ArgosyProcess& one = job.start(flags, "true");
  ArgosyProcess& other = job.start(flags, "true");
  for (ArgosyProcess* node : {&one, &other}) {
    EXPECT_EQ(node->wait(), 2);
    EXPECT_THAT(
        node->err(), HasSubstr("--node-rank 1 is given to two nodes: "));
  }
}

TEST(Nodes, RefuseDifferentNumbersOfNodes) {
  Job job;
  ArgosyProcess& one = job.start({"--nnodes", "3"}, "true");
  ArgosyProcess& other = job.start({"--nnodes", "2"}, "true");
  EXPECT_EQ(one.wait(), 2);
  EXPECT_EQ(other.wait(), 2);
  EXPECT_THAT(one.err(), HasSubstr("--nnodes differs"));
  EXPECT_THAT(other.err(), HasSubstr("--nnodes differs"));
}

TEST(Nodes, SayWhoIsMissing) {
  Job job;
  ArgosyProcess& node = job.start(
      {"--nnodes", "3", "--node-rank", "1", "--rdzv-timeout", "1s"}, "true");
  EXPECT_EQ(node.wait(), 1);
  EXPECT_THAT(
      node.err(),
      AllOf(
          HasSubstr("1 of 3 nodes came within 1 s"),
          HasSubstr("missing node ranks: 0, 2")));
}

// A program that is no launcher listens where the nodes should meet.
TEST(Nodes, NameAPortThatSomebodyElseHolds) {
  const ForeignServer silent("");
  Job at_silent(silent.endpoint().text());
  ArgosyProcess& waiting =
      at_silent.start({"--nnodes", "2", "--rdzv-timeout", "1s"}, "true");
  const ForeignServer http(kHttp400);
  Job at_http(http.endpoint().text());
  ArgosyProcess& refused = at_http.start({"--nnodes", "2"}, "true");
  EXPECT_EQ(refused.wait(), 1);
  EXPECT_THAT(
      refused.err(),
      AllOf(
          HasSubstr(http.endpoint().text()),
          HasSubstr("is not an Argosy key-value server")));
  EXPECT_EQ(waiting.wait(), 1);
  EXPECT_THAT(
      waiting.err(),
      AllOf(
          HasSubstr("no answer within 1 s"),
          HasSubstr("it is not served here"),
          HasSubstr("cannot listen on " + silent.endpoint().text()),
          HasSubstr("already in use")));
}

// As when a client of another program got the port by chance.
TEST(Nodes, MeetAtAPortOnceItIsFree) {
  std::optional<ForeignServer> holder(std::in_place, "");
  Job job(holder->endpoint().text());
  const Words flags = {"--nnodes", "2"};
  ArgosyProcess& one = job.start(flags, "true");
  ArgosyProcess& other = job.start(flags, "true");
  // Both have found the port taken.
  EXPECT_TRUE(eventually([&] { return holder->num_clients() >= 4; }));
  holder.reset();
  EXPECT_EQ(one.wait(), 0) << one.err();
  EXPECT_EQ(other.wait(), 0) << other.err();
}

TEST(Nodes, StartWithFewerWhenAllowed) {
  Job job;
  ArgosyProcess& node = job.start(
      {"--nnodes", "1:3", "--rdzv-conf", "last_call_timeout=100ms"},
      "echo $GROUP_WORLD_SIZE");
  EXPECT_EQ(node.wait(), 0) << node.err();
  EXPECT_EQ(node.out(), "1\n");
}

TEST(Nodes, CanBeInterruptedWhileTheyWait) {
  Job job;
  ArgosyProcess& node = job.start({"--nnodes", "2"}, "true");
  ASSERT_TRUE(
      eventually([&] { return !launch::descendants(node.pid()).empty(); }));
  node.send(SIGINT);
  EXPECT_EQ(node.wait(), 128 + SIGINT);
}

int run_shell(const std::string& script) {
  return std::system(script.c_str());
}

// Two network namespaces joined by a cable, as two hosts are. Needs root.
class TwoHosts {
 public:
  TwoHosts() {
    ok_ = run_shell(
              "( ip netns add " + name(0) + " && ip netns add " + name(1) +
              " && ip link add " + link(0) + " type veth peer name " + link(1) +
              " && " + wire(0) + " && " + wire(1) + " ) 2>/dev/null") == 0;
  }
  ~TwoHosts() {
    run_shell(
        "ip netns del " + name(0) + " 2>/dev/null; ip netns del " + name(1) +
        " 2>/dev/null");
  }

  bool ok() const { return ok_; }
  Words on(int host) const { return {"ip", "netns", "exec", name(host)}; }

 private:
  std::string name(int host) const { return str(unique_, "h", host); }
  std::string link(int host) const { return str(unique_, "l", host); }
  std::string wire(int host) const {
    const std::string in = "ip -n " + name(host);
    return "ip link set " + link(host) + " netns " + name(host) + " && " + in +
        " addr add 10.77.0." + std::to_string(host + 1) + "/24 dev " +
        link(host) + " && " + in + " link set " + link(host) + " up && " + in +
        " link set lo up";
  }

  const std::string unique_ = str("ag", ::getpid());
  bool ok_ = false;
};

TEST(Nodes, MeetAcrossHosts) {
  const TwoHosts hosts;
  if (!hosts.ok()) {
    std::cout << "no right to make network namespaces: loopback stands in\n";
    return expect_one_world("");
  }
  Job job("10.77.0.1:29400");
  const char* script =
      "echo $MASTER_ADDR $RANK $PADDLE_CURRENT_ENDPOINT; exit $EXIT";
  ArgosyProcess& second = job.start(
      {"--nnodes", "2", "--node-rank", "1", "--env", "EXIT=6"},
      script,
      hosts.on(1));
  ArgosyProcess& first = job.start(
      {"--nnodes", "2", "--node-rank", "0"}, "exec sleep 60", hosts.on(0));
  EXPECT_EQ(second.wait(), 6) << second.err();
  EXPECT_EQ(first.wait(), 6) << first.err();
  EXPECT_THAT(
      second.out(), AllOf(HasSubstr("10.77.0.1 1 "), HasSubstr("10.77.0.2:")));
}

} // namespace
} // namespace argosy::testing
