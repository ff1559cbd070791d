#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "argosy/store/socket.h"

namespace argosy::testing {

// Returns when one can be read, or after 20 ms.
inline void await_any(const std::vector<const store::Socket*>& sockets) {
  std::vector<pollfd> entries;
  for (const store::Socket* socket : sockets) {
    entries.push_back({socket->fd(), POLLIN, 0});
  }
  ::poll(entries.data(), entries.size(), 20);
}

// A foreign service: answers the first bytes of each client with `answer` and
// closes; an empty answer never comes, and the connection stays open.
class ForeignServer {
 public:
  explicit ForeignServer(std::string answer)
      : answer_(std::move(answer)),
        listener_(store::listen_on({"127.0.0.1", 0})),
        thread_([this] { run(); }) {}

  ~ForeignServer() {
    stopping_ = true;
    thread_.join();
  }

  Endpoint endpoint() const { return {"127.0.0.1", store::port_of(listener_)}; }
  int num_clients() const { return num_clients_; } // so far

 private:
  void run() {
    while (!stopping_) {
      await_any({&listener_});
      store::Socket client(
          ::accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK));
      num_clients_ += client.fd() >= 0 ? 1 : 0;
      if (client.fd() >= 0 && answer_.empty()) {
        silent_.push_back(std::move(client));
      } else if (client.fd() >= 0) {
        const auto limit = Deadline::after(std::chrono::seconds(5));
        std::string ignored;
        store::receive(client, 1, ignored, limit);
        store::send_all(client, answer_, limit);
      }
    }
  }

  const std::string answer_;
  store::Socket listener_;
  std::vector<store::Socket> silent_; // of the thread
  std::atomic<bool> stopping_{false};
  std::atomic<int> num_clients_{0};
  std::thread thread_;
};

inline const std::string kHttp400 =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n"
    "Content-Length: 11\r\nConnection: close\r\n\r\nBad Request";

} // namespace argosy::testing
