#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/store/socket.h"
#include "tests/store/servers.h"

namespace argosy::testing {

// What may happen to a request on its way.
enum class Fault {
  ResetBefore, // the connection breaks before the server sees it
  ResetAfter,  // carried out, but the answer is lost
  Unavailable, // 503 from a load balancer
  ShortBody,   // the answer ends half-way
  ShortUpload, // the server gets half of the body
  Slow,        // the answer dribbles
  Stall,       // no answer comes, and the connection stays open
  Refuse,      // 403, which no other try changes
};

inline const std::vector<Fault> kPassingFaults = {
    Fault::ResetBefore,
    Fault::ResetAfter,
    Fault::Unavailable,
    Fault::ShortBody,
    Fault::ShortUpload,
    Fault::Slow};

// An HTTP proxy in front of one server, which passes requests on, except as
// told.
class FaultProxy {
 public:
  FaultProxy()
      : listener_(store::listen_on({"127.0.0.1", 0})),
        thread_([this] { run(); }) {}

  ~FaultProxy() {
    stopping_ = true;
    thread_.join();
  }

  std::uint16_t port() const { return store::port_of(listener_); }
  void set_server(std::uint16_t port) { server_ = {"127.0.0.1", port}; }

  // The next `count` requests whose first line contains `text` meet `fault`.
  void plan(Fault fault, int count, std::string text = "") {
    const std::lock_guard lock(mutex_);
    planned_ = fault;
    num_planned_ = count;
    text_ = std::move(text);
  }

  // About `percent` of all requests meet a fault; 0: none.
  void set_random(int percent, unsigned seed) {
    const std::lock_guard lock(mutex_);
    percent_ = percent;
    random_.seed(seed);
  }

  int num_faults() const { return num_faults_; }
  int num_requests() const { return num_requests_; }

 private:
  static Deadline limit() { return Deadline::after(std::chrono::seconds(20)); }

  void run() {
    std::vector<std::jthread> connections; // joined at the end
    while (!stopping_) {
      await_any({&listener_});
      const int fd = ::accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK);
      if (fd >= 0) {
        if (connections.size() == 100) {
          connections.clear(); // joins
        }
        connections.emplace_back([this, fd] {
          const store::Socket client(fd);
          try {
            serve(client);
          } catch (const Error&) {
            reset(client); // the server is away
          }
        });
      }
    }
  }

  void serve(const store::Socket& client) {
    const std::string request = read_request(client);
    if (request.empty()) {
      return;
    }
    ++num_requests_;
    const auto fault = next_fault(request);
    num_faults_ += fault ? 1 : 0;
    if (!fault) {
      store::send_all(client, forward(request), limit());
    } else {
      meet(*fault, client, request);
    }
  }

  void meet(Fault fault, const store::Socket& client, std::string request) {
    switch (fault) {
      case Fault::ResetBefore:
        return reset(client);
      case Fault::ResetAfter:
        forward(request);
        return reset(client);
      case Fault::Unavailable:
        store::send_all(
            client,
            "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 9\r\n"
            "Connection: close\r\n\r\nslow down",
            limit());
        return;
      case Fault::Refuse:
        store::send_all(
            client,
            "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n"
            "Connection: close\r\n\r\nno",
            limit());
        return;
      case Fault::ShortBody: {
        const std::string answer = forward(request);
        const std::size_t head = answer.find("\r\n\r\n") + 4;
        // Without a body the head is cut.
        const std::size_t count =
            answer.size() > head ? head + (answer.size() - head) / 2 : head / 2;
        store::send_all(client, answer.substr(0, count), limit());
        return;
      }
      case Fault::ShortUpload: {
        const std::size_t head = request.find("\r\n\r\n") + 4;
        request.resize(
            request.size() > head ? head + (request.size() - head) / 2
                                  : head / 2);
        send_to_server(request);
        return reset(client);
      }
      case Fault::Slow:
        return dribble(client, forward(request));
      case Fault::Stall: {
        std::string ignored; // until the client gives up
        store::receive(client, 1, ignored, limit());
        return;
      }
    }
  }

  static void dribble(const store::Socket& client, const std::string& answer) {
    const std::size_t step = answer.size() / 8 + 1;
    for (std::size_t at = 0; at < answer.size(); at += step) {
      store::send_all(client, answer.substr(at, step), limit());
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  // A linger time of zero turns close() into a reset.
  static void reset(const store::Socket& client) {
    const ::linger now{1, 0};
    ::setsockopt(client.fd(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  }

  std::optional<Fault> next_fault(const std::string& request) {
    const std::lock_guard lock(mutex_);
    const std::string line = request.substr(0, request.find("\r\n"));
    if (num_planned_ > 0 && line.find(text_) != std::string::npos) {
      --num_planned_;
      return planned_;
    }
    if (percent_ > 0 && static_cast<int>(random_() % 100) < percent_) {
      return kPassingFaults[random_() % kPassingFaults.size()];
    }
    return std::nullopt;
  }

  // Up to the empty line; "" if the connection ends.
  static std::string read_head(const store::Socket& client) {
    const Deadline deadline = limit();
    std::string seen(16384, '\0');
    while (!deadline.expired()) {
      await_any({&client});
      const ssize_t count =
          ::recv(client.fd(), seen.data(), seen.size(), MSG_PEEK);
      if (count == 0 || (count < 0 && errno != EAGAIN)) {
        return "";
      }
      const std::size_t end = seen.find("\r\n\r\n");
      if (count > 0 && end < static_cast<std::size_t>(count)) {
        std::string head;
        store::receive(client, end + 4, head, deadline);
        return head;
      }
    }
    return "";
  }

  static std::string read_request(const store::Socket& client) {
    std::string request = read_head(client);
    if (request.empty()) {
      return "";
    }
    if (request.find("Expect: 100") != std::string::npos) {
      store::send_all(client, "HTTP/1.1 100 Continue\r\n\r\n", limit());
    }
    const std::string name = "Content-Length: ";
    const std::size_t at = request.find(name);
    if (at != std::string::npos) {
      const std::size_t size = std::stoul(request.substr(at + name.size()));
      store::receive(client, size, request, limit());
    }
    return request;
  }

  // Sends a request, on a connection of its own. Returns that connection.
  store::Socket send_to_server(std::string request) {
    if (const auto at = request.find("Expect: 100-continue\r\n");
        at != std::string::npos) {
      request.erase(at, 22);
    }
    request.insert(request.find("\r\n") + 2, "Connection: close\r\n");
    store::Socket server = store::connect_to(server_, limit(), "the server");
    store::send_all(server, request, limit());
    return server;
  }

  std::string forward(const std::string& request) {
    std::string answer;
    store::receive(send_to_server(request), std::string::npos, answer, limit());
    return answer;
  }

  Endpoint server_;
  store::Socket listener_;
  std::mutex mutex_;
  Fault planned_{}; // guarded by mutex_, as those below
  int num_planned_ = 0;
  std::string text_;
  int percent_ = 0;
  std::minstd_rand random_;
  std::atomic<int> num_faults_{0};
  std::atomic<int> num_requests_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

} // namespace argosy::testing
