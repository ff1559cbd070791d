// Groups of several hosts, which are network namespaces joined by a bridge,
// each with processes of its own: no memory is shared between them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/types.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>

#include "argosy/comm/call_timeout.h"
#include "argosy/comm/hierarchy/hosts.h"
#include "argosy/comm/ops.h"
#include "argosy/common/environment.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"
#include "argosy/world/init.h"
#include "argosy/world/world.h"
#include "tests/comm/collective_checks.h"

namespace argosy {
namespace {

using namespace std::chrono_literals;
using comm::hierarchy::Hosts;
using comm::hierarchy::partition;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Partition, GroupsThoseWhoSeeEachOther) {
  EXPECT_EQ(
      partition({{1, 0, 1, 0}, {0, 1, 0, 1}, {1, 0, 1, 0}, {0, 1, 0, 1}}),
      (Hosts{{{0, 2}, {1, 3}}}));
  EXPECT_EQ(
      partition({{1, 1, 0}, {0, 1, 1}, {0, 1, 1}}), (Hosts{{{0}, {1, 2}}}))
      << "one way is not enough";
  EXPECT_EQ(partition({{1}}), (Hosts{{{0}}}));
}

TEST(Partition, KnowsPlaces) {
  const Hosts hosts{{{0}, {1, 3}, {2}}};
  EXPECT_EQ(hosts.num_ranks(), 4);
  EXPECT_EQ(hosts.host_of(3), 1);
  EXPECT_EQ(hosts.local_rank_of(3), 1);
  EXPECT_EQ(hosts.leaders(), (std::vector<int>{0, 1, 2}));
}

// ---- What the ranks do ------------------------------------------------------

template <typename E>
std::string thrown_by(const std::function<void()>& act) {
  try {
    act();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "of another class: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

void all_collectives(World& world) {
  EXPECT_EQ(get_backend(), ::getenv("EXPECTED_BACKEND"));
  for (const std::int64_t count : {0, 1, 7, 1024, 300000}) {
    SCOPED_TRACE(count);
    check_reductions(world, nullptr, count, torch::kFloat);
    check_copies(world, nullptr, count, torch::kFloat);
  }
  for (const auto type : {torch::kHalf, torch::kByte, torch::kComplexDouble}) {
    check_reductions(world, nullptr, 100, type);
    check_copies(world, nullptr, 100, type);
  }
  const int n = world.size();
  const at::Tensor all = everybodys(n, {1000}, torch::kInt);
  at::Tensor mine = all[world.rank()].clone();
  all_reduce(mine, ReduceOp::AVG);
  EXPECT_TRUE(
      torch::equal(mine, torch::div(all.sum(0), n, "trunc").to(torch::kInt)));
  for (int peer = 0; peer < n; ++peer) { // everybody to everybody
    at::Tensor in = torch::empty({2000}, torch::kInt);
    const int to = (world.rank() + peer) % n;
    const int from = (world.rank() - peer + n) % n;
    if (to == world.rank()) {
      continue;
    }
    const auto sent = isend(torch::full({2000}, world.rank(), torch::kInt), to);
    recv(in, from);
    sent->wait();
    EXPECT_EQ(in[1999].item<int>(), from);
  }
  barrier();
}

void one_large_sum(World&) {
  at::Tensor data = torch::ones({4 << 20});
  all_reduce(data);
  barrier();
}

void disagree(World& world) {
  EXPECT_THAT(
      thrown_by<InvalidArgument>(
          [&] { all_reduce(torch::ones({world.rank() == 3 ? 4 : 3})); }),
      AllOf(
          HasSubstr("rank 0 calls all_reduce of 3 float32, sum"),
          HasSubstr("rank 3 calls all_reduce of 4 float32, sum")));
}

bool is_one_of(int rank, const char* variable) {
  const auto words = split(::getenv(variable), ',');
  return std::find(words.begin(), words.end(), std::to_string(rank)) !=
      words.end();
}

// Rank 0 serves the store, and would wait for all to leave it.
void leave_without_the_dead(World& world) {
  const auto key = [](int rank) { return "done/" + std::to_string(rank); };
  world.store()->set(key(world.rank()), {1});
  for (int rank = 0; rank < world.size() && world.rank() == 0; ++rank) {
    if (!is_one_of(rank, "DYING")) {
      world.store()->get(key(rank));
    }
  }
  ::_exit(::testing::Test::HasFailure() ? 1 : 0);
}

void some_die(World& world) {
  at::Tensor data = torch::ones({1 << 18});
  const std::string text = thrown_by<PeerLost>([&] {
    for (int i = 0;; ++i) {
      if (i == 5 && is_one_of(world.rank(), "DYING")) {
        ::kill(::getpid(), SIGKILL);
      }
      all_reduce(data);
    }
  });
  std::cout << "THROWN " << text.substr(0, text.rfind("; rank")) << std::endl;
  leave_without_the_dead(world);
}

void one_stays_away(World& world) {
  barrier();
  if (world.rank() == 3) {
    world.store()->get("seen");
    return;
  }
  const CallTimeout limit(700ms);
  EXPECT_THAT(
      thrown_by<TimeoutError>([&] { all_reduce(torch::ones({70000})); }),
      AllOf(HasSubstr("rank 3 of group"), HasSubstr("all_reduce of 70000")));
  if (world.rank() == 0) {
    world.store()->set("seen", {1});
  }
}

// Not a test of its own: what every rank of the tests below runs.
TEST(HostRank, DISABLED_Run) {
  const std::map<std::string, void (*)(World&)> bodies = {
      {"all_collectives", all_collectives},
      {"one_large_sum", one_large_sum},
      {"disagree", disagree},
      {"some_die", some_die},
      {"one_stays_away", one_stays_away}};
  const auto world = init_parallel_env({.timeout = 40s});
  bodies.at(::getenv("BODY"))(*world);
  destroy_process_group();
}

// ---- Hosts ------------------------------------------------------------------

int run_shell(const std::string& script) {
  return std::system(script.c_str());
}

class Network {
 public:
  explicit Network(int num_hosts) : num_hosts_(num_hosts) {
    std::string script = "( ip link add " + bridge() +
        " type bridge && ip link set " + bridge() + " up";
    for (int host = 0; host < num_hosts; ++host) {
      script += " && " + add(host);
    }
    ok_ = run_shell(script + " )") == 0;
  }

  ~Network() {
    for (int host = 0; host < num_hosts_; ++host) {
      run_shell("ip netns del " + name(host) + " 2>/dev/null");
      run_shell("ip link del " + port(host) + " 2>/dev/null");
    }
    run_shell("ip link del " + bridge() + " 2>/dev/null");
  }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  bool ok() const { return ok_; }
  std::string name(int host) const { return str(unique_, "h", host); }
  static std::string address(int host) { return str("10.78.0.", host + 1); }

  // What the host has sent.
  long long bytes_from(int host) const {
    const auto text =
        read_file("/sys/class/net/" + port(host) + "/statistics/rx_bytes");
    return parse_int(trim(text.value_or(""))).value_or(-1);
  }

 private:
  std::string bridge() const { return unique_ + "b"; }
  std::string port(int host) const { return str(unique_, "p", host); }
  std::string link(int host) const { return str(unique_, "l", host); }

  std::string add(int host) const {
    const std::string in = "ip -n " + name(host);
    return "ip netns add " + name(host) + " && ip link add " + port(host) +
        " type veth peer name " + link(host) + " && ip link set " + port(host) +
        " master " + bridge() + " up && ip link set " + link(host) + " netns " +
        name(host) + " && " + in + " addr add " + address(host) + "/24 dev " +
        link(host) + " && " + in + " link set " + link(host) + " up && " + in +
        " link set lo up";
  }

  const std::string unique_ = str("ag", ::getpid() % 100000);
  const int num_hosts_;
  bool ok_ = false;
};

struct Outcome {
  int status = -1;
  std::string output;
};

class HostRanks {
 public:
  explicit HostRanks(Hosts hosts)
      : hosts_(std::move(hosts)), network_(hosts_.size()) {}

  bool ok() const { return network_.ok(); }
  const Network& network() const { return network_; }

  // Runs this program on all ranks, and returns what became of them.
  std::vector<Outcome> run(
      const std::string& body, const std::string& variables = "") const {
    std::vector<std::thread> threads;
    for (int host = 0; host < hosts_.size(); ++host) {
      threads.emplace_back([&, host] {
        run_shell(
            "timeout -k 1 60 ip netns exec " + network_.name(host) +
            " unshare --pid --fork --kill-child --mount-proc sh -c '" +
            script(host, "BODY=" + body + " " + variables) + "'");
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    std::vector<Outcome> outcomes;
    for (int rank = 0; rank < hosts_.num_ranks(); ++rank) {
      const auto status = read_file(file(rank, "status"));
      outcomes.push_back(
          {static_cast<int>(parse_int(trim(status.value_or(""))).value_or(-1)),
           read_file(file(rank, "log")).value_or("")});
    }
    return outcomes;
  }

 private:
  std::string file(int rank, const std::string& what) const {
    return (dir_.path() / str("rank", rank, ".", what)).string();
  }

  std::string script(int host, const std::string& variables) const {
    const auto& ranks = hosts_.ranks[static_cast<std::size_t>(host)];
    const std::string program =
        std::filesystem::read_symlink("/proc/self/exe").string();
    std::string text;
    for (std::size_t place = 0; place < ranks.size(); ++place) {
      text += str_format(
          "( {} OMP_NUM_THREADS=1 MASTER_ADDR={} MASTER_PORT=29500 "
          "WORLD_SIZE={} RANK={} LOCAL_RANK={} LOCAL_WORLD_SIZE={} {} "
          "--gtest_filter=HostRank.DISABLED_Run "
          "--gtest_also_run_disabled_tests > {} 2>&1; echo $? > {} ) & ",
          variables,
          Network::address(0),
          hosts_.num_ranks(),
          ranks[place],
          place,
          ranks.size(),
          program,
          file(ranks[place], "log"),
          file(ranks[place], "status"));
    }
    return text + "wait";
  }

  const Hosts hosts_;
  const Network network_;
  const TempDir dir_{"argosy-hosts"};
};

void expect_all_pass(const std::vector<Outcome>& outcomes) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_EQ(outcomes[rank].status, 0) << "rank " << rank << ":\n"
                                        << outcomes[rank].output;
  }
}

std::string thrown(const Outcome& outcome) {
  const auto begin = outcome.output.find("THROWN ");
  return begin == std::string::npos
      ? "nothing:\n" + outcome.output
      : outcome.output.substr(begin, outcome.output.find('\n', begin) - begin);
}

// ---- Tests ------------------------------------------------------------------

class SeveralHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) {
      GTEST_SKIP() << "network namespaces are root's";
    }
  }
};

TEST_F(SeveralHosts, EqualOneProcessOnTwoTimesTwo) {
  const HostRanks ranks({{{0, 1}, {2, 3}}});
  ASSERT_TRUE(ranks.ok());
  expect_all_pass(
      ranks.run("all_collectives", "EXPECTED_BACKEND=auto:shm+gloo"));
}

TEST_F(SeveralHosts, EqualOneProcessOnHostsThatDiffer) {
  const HostRanks ranks({{{0}, {1, 2}, {3}}});
  ASSERT_TRUE(ranks.ok());
  expect_all_pass(
      ranks.run("all_collectives", "EXPECTED_BACKEND=auto:shm+gloo"));
}

TEST_F(SeveralHosts, EqualOneProcessWhereRanksAlternate) {
  const HostRanks ranks({{{0, 2}, {1, 3}}});
  ASSERT_TRUE(ranks.ok());
  expect_all_pass(
      ranks.run("all_collectives", "EXPECTED_BACKEND=auto:shm+gloo"));
}

TEST_F(SeveralHosts, ThatHaveOneRankEachUseTheNetworkAlone) {
  const HostRanks ranks({{{0}, {1}}});
  ASSERT_TRUE(ranks.ok());
  expect_all_pass(ranks.run("all_collectives", "EXPECTED_BACKEND=gloo"));
}

// 16 MB leave each host once, not once for each rank.
TEST_F(SeveralHosts, SendASumOverTheNetworkOnce) {
  const HostRanks ranks({{{0, 1}, {2, 3}}});
  ASSERT_TRUE(ranks.ok());
  expect_all_pass(ranks.run("one_large_sum"));
  for (int host = 0; host < 2; ++host) {
    const double sent = static_cast<double>(ranks.network().bytes_from(host));
    EXPECT_GT(sent, 16e6) << "host " << host;
    EXPECT_LT(sent, 19e6) << "host " << host;
  }
}

TEST_F(SeveralHosts, AllNameADisagreement) {
  const HostRanks ranks({{{0, 1}, {2, 3}}});
  ASSERT_TRUE(ranks.ok());
  expect_all_pass(ranks.run("disagree"));
}

TEST_F(SeveralHosts, AllNameWhoDoesNotCome) {
  const HostRanks ranks({{{0, 1}, {2, 3}}});
  ASSERT_TRUE(ranks.ok());
  expect_all_pass(ranks.run("one_stays_away"));
}

TEST_F(SeveralHosts, NoticeARankThatDies) {
  const HostRanks ranks({{{0, 1}, {2, 3}}});
  ASSERT_TRUE(ranks.ok());
  const auto outcomes = ranks.run("some_die", "DYING=3");
  EXPECT_EQ(outcomes[3].status, 128 + SIGKILL);
  for (const int rank : {0, 1, 2}) {
    EXPECT_EQ(outcomes[rank].status, 0) << outcomes[rank].output;
    EXPECT_THAT(
        thrown(outcomes[rank]),
        AllOf(
            HasSubstr("all_reduce of 262144 float32, sum"),
            HasSubstr("rank 3 of group 0 died")));
  }
}

TEST_F(SeveralHosts, NoticeAHostThatDies) {
  const HostRanks ranks({{{0, 1}, {2, 3}}});
  ASSERT_TRUE(ranks.ok());
  const auto outcomes = ranks.run("some_die", "DYING=2,3");
  for (const int rank : {0, 1}) {
    EXPECT_EQ(outcomes[rank].status, 0) << outcomes[rank].output;
    EXPECT_THAT(thrown(outcomes[rank]), HasSubstr("rank 2 of group 0"));
  }
}

} // namespace
} // namespace argosy
