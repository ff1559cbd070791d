#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "argosy/store/socket.h"
#include "tests/store/servers.h"

namespace argosy::testing {

// An HTTP proxy in front of etcd that loses answers: a request whose path has
// `kv/txn` is carried out, and its answer dropped, `num_losses` times before
// one answer gets through.
class LossyProxy {
 public:
  // `on_loss` runs between a loss and the next try.
  LossyProxy(
      const Endpoint& etcd,
      int num_losses,
      std::function<void()> on_loss = [] {})
      : etcd_(etcd),
        num_losses_(num_losses),
        on_loss_(std::move(on_loss)),
        listener_(store::listen_on({"127.0.0.1", 0})),
        thread_([this] { run(); }) {}

  ~LossyProxy() {
    stopping_ = true;
    thread_.join();
  }

  Endpoint endpoint() const { return {"127.0.0.1", store::port_of(listener_)}; }
  int num_lost() const { return num_lost_; }

 private:
  static Deadline limit() { return Deadline::after(std::chrono::seconds(5)); }

  void run() {
    while (!stopping_) {
      await_any({&listener_});
      const store::Socket client(
          ::accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK));
      const std::string request = client.fd() < 0 ? "" : read_request(client);
      if (request.empty()) {
        continue;
      }
      const std::string answer = forward(request);
      if (!drops(request)) {
        store::send_all(client, answer, limit());
      }
    }
  }

  bool drops(const std::string& request) {
    if (request.find("kv/txn") > request.find("\r\n")) {
      return false;
    }
    if (in_a_row_ == num_losses_) {
      in_a_row_ = 0;
      return false;
    }
    ++in_a_row_;
    ++num_lost_;
    on_loss_();
    return true;
  }

  static std::string read_request(const store::Socket& client) {
    std::string request;
    while (!request.ends_with("\r\n\r\n")) {
      if (store::receive(client, 1, request, limit()) !=
          store::IoResult::Done) {
        return "";
      }
    }
    const std::string name = "Content-Length: ";
    const std::size_t at = request.find(name);
    const std::size_t size = std::stoul(request.substr(at + name.size()));
    store::receive(client, size, request, limit());
    return request;
  }

  std::string forward(std::string request) const {
    request.insert(request.find("\r\n") + 2, "Connection: close\r\n");
    const auto server = store::connect_to(etcd_, limit(), "etcd");
    store::send_all(server, request, limit());
    std::string answer;
    store::receive(server, std::string::npos, answer, limit());
    return answer;
  }

  const Endpoint etcd_;
  const int num_losses_;
  const std::function<void()> on_loss_;
  store::Socket listener_;
  int in_a_row_ = 0; // of the thread
  std::atomic<int> num_lost_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

} // namespace argosy::testing
