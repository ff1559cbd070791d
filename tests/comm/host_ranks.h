#pragma once

// Ranks on several hosts, which are network namespaces joined by a bridge, each
// with processes of its own: no memory is shared between them. Every rank runs
// the case HostRank.DISABLED_Run of the test program.

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "argosy/comm/hierarchy/hosts.h"
#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"

namespace argosy::testing {

using namespace std::chrono_literals;
using comm::hierarchy::Hosts;

inline int run_shell(const std::string& script) {
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

  // Changes the host's link to the others: "down", "up".
  void set_link(int host, const std::string& how) const {
    EXPECT_EQ(run_shell("ip link set " + port(host) + " " + how), 0);
  }

  // Limits the rate of both directions; what does not fit is dropped.
  void slow_down(int host) const {
    const std::string how = " root tbf rate 100mbit burst 64kb latency 5ms";
    EXPECT_EQ(
        run_shell(
            "tc qdisc add dev " + port(host) + how + " && ip netns exec " +
            name(host) + " tc qdisc add dev " + link(host) + how),
        0);
  }

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
  // `during` runs when all ranks have said that they are ready.
  std::vector<Outcome> run(
      const std::string& body,
      const std::string& variables = "",
      const std::function<void()>& during = nullptr) const {
    std::vector<std::thread> threads;
    if (during) {
      threads.emplace_back([&] {
        if (await_ready()) {
          during();
        }
      });
    }
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
  bool await_ready() const {
    const Deadline deadline = Deadline::after(30s);
    for (int rank = 0; rank < hosts_.num_ranks() && !deadline.expired();) {
      const auto log = read_file(file(rank, "log")).value_or("");
      rank += log.find("READY") == std::string::npos ? 0 : 1;
      std::this_thread::sleep_for(5ms);
    }
    return !deadline.expired();
  }

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

inline void expect_all_pass(const std::vector<Outcome>& outcomes) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_EQ(outcomes[rank].status, 0) << "rank " << rank << ":\n"
                                        << outcomes[rank].output;
  }
}

inline std::string thrown(const Outcome& outcome) {
  const auto begin = outcome.output.find("THROWN ");
  return begin == std::string::npos
      ? "nothing:\n" + outcome.output
      : outcome.output.substr(begin, outcome.output.find('\n', begin) - begin);
}

class SeveralHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) {
      GTEST_SKIP() << "network namespaces are root's";
    }
  }
};

} // namespace argosy::testing
