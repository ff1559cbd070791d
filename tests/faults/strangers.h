#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "argosy/store/socket.h"
#include "tests/support/listeners.h"

namespace argosy::testing {

// While it lives, strangers connect to every port on which one of the processes
// listens: they send garbage, the begin of a greeting, a byte now and then, or
// nothing at all, and stay or leave.
class Strangers {
 public:
  Strangers(
      std::function<std::vector<pid_t>()> find_processes, std::uint64_t seed);
  ~Strangers();
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

  // How many ports they have found.
  int num_ports() const { return num_ports_; }

 private:
  void run();
  void visit(const Listener& port);

  const std::function<std::vector<pid_t>()> find_processes_;
  std::mt19937_64 random_;
  std::map<Listener, int> visits_;
  std::vector<store::Socket> held_;
  std::atomic<int> num_ports_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Twenty clients of one port: garbage at once, then silence for a moment.
void send_garbage(const std::string& endpoint, std::uint64_t seed);

} // namespace argosy::testing
