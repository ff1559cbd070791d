#include "tests/faults/strangers.h"

#include <poll.h>
#include <sys/socket.h>

#include "argosy/common/error.h"
#include "argosy/common/net.h"
#include "argosy/store/greeting.h"

namespace argosy::testing {

namespace {

using namespace std::chrono_literals;

constexpr int kVisits = 12; // of each port
constexpr std::size_t kMostHeld = 200;

// The kernel writes the bytes of an IPv4 address in reverse. Whoever listens on
// all interfaces, or on IPv6, is on loopback too.
std::string address_of(const Listener& port) {
  if (port.word.size() != 8 || port.word == "00000000") {
    return "127.0.0.1";
  }
  const auto byte = [&](std::size_t at) {
    return std::stoi(port.word.substr(at, 2), nullptr, 16);
  };
  return str(byte(6), ".", byte(4), ".", byte(2), ".", byte(0));
}

void send_without_waiting(const store::Socket& socket, std::string_view bytes) {
  ::send(socket.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

} // namespace

Strangers::Strangers(
    std::function<std::vector<pid_t>()> find_processes, std::uint64_t seed)
    : find_processes_(std::move(find_processes)),
      random_(seed),
      thread_([this] { run(); }) {}

Strangers::~Strangers() {
  stop_ = true;
  thread_.join();
}

void Strangers::run() {
  while (!stop_) {
    for (const pid_t pid : find_processes_()) {
      for (const Listener& port : listeners_of(pid)) {
        visit(port);
      }
    }
    num_ports_ = static_cast<int>(visits_.size());
    // Slow clients: a byte now and then.
    for (const store::Socket& each : held_) {
      send_without_waiting(each, "a");
    }
    ::poll(nullptr, 0, 20);
  }
}

void Strangers::visit(const Listener& port) {
  if (visits_[port]++ >= kVisits || held_.size() > kMostHeld) {
    return;
  }
  try {
    store::Socket socket = store::connect_to(
        {address_of(port), static_cast<std::uint16_t>(port.port)},
        Deadline::after(100ms),
        "a server");
    std::string bytes(random_() % 300, '\0');
    for (char& each : bytes) {
      each = static_cast<char>(random_());
    }
    switch (random_() % 4) {
      case 0:
        send_without_waiting(socket, bytes);
        return; // and leaves
      case 1:
        send_without_waiting(socket, bytes);
        break;
      case 2:
        send_without_waiting(socket, store::kHello);
        break;
      default:
        break; // says nothing
    }
    held_.push_back(std::move(socket));
  } catch (const Error&) {
    // It no longer listens.
  }
}

void send_garbage(const std::string& endpoint, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<store::Socket> held;
  for (int i = 0; i < 20; ++i) {
    try {
      held.push_back(store::connect_to(
          parse_endpoint(endpoint, "soak"),
          Deadline::after(100ms),
          "a server"));
    } catch (const Error&) {
      continue; // it does not listen, or no longer
    }
    std::string bytes(random() % 300, '\0');
    for (char& each : bytes) {
      each = static_cast<char>(random());
    }
    store::send_all(held.back(), bytes, Deadline::after(100ms));
  }
  ::poll(nullptr, 0, 200); // some stay open and say no more
}

} // namespace argosy::testing
