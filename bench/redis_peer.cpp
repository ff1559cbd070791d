#include "bench/redis_peer.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "argosy/common/backoff.h"
#include "argosy/common/error.h"
#include "bench/rpc_measure.h"

namespace argosy::bench {

namespace {

Deadline io_limit() {
  return Deadline::after(std::chrono::seconds(20));
}

store::Socket connect_path(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ARGOSY_CHECK(path.size() < sizeof(address.sun_path), "[bench] ", path);
  std::memcpy(address.sun_path, path.data(), path.size());
  store::Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int failed = ::connect(
      socket.fd(),
      reinterpret_cast<const sockaddr*>(&address),
      sizeof(address));
  return failed == 0 ? std::move(socket) : store::Socket();
}

std::string command(const std::vector<std::string>& words) {
  std::string text = str("*", words.size(), "\r\n");
  for (const std::string& word : words) {
    text += str("$", word.size(), "\r\n", word, "\r\n");
  }
  return text;
}

} // namespace

RedisPeer::RedisPeer(const std::string& socket)
    : server_(std::make_unique<LineProcess>(std::vector<std::string>{
          "redis-server",
          "--port",
          "0",
          "--unixsocket",
          socket,
          "--save",
          "",
          "--appendonly",
          "no",
          "--loglevel",
          "warning"})) {
  const Deadline limit = io_limit();
  for (Backoff backoff; socket_.fd() < 0; backoff.pause(limit)) {
    socket_ = connect_path(socket);
    if (limit.expired()) {
      throw TimeoutError("[bench] redis-server did not start within 20 s");
    }
  }
}

RedisPeer::~RedisPeer() {
  store::send_all(socket_, command({"SHUTDOWN", "NOSAVE"}), io_limit());
}

void RedisPeer::send(const std::string& request) {
  ARGOSY_CHECK(
      store::send_all(socket_, request, io_limit()) == store::IoResult::Done,
      "[bench] redis-server closed the connection");
}

void RedisPeer::receive(std::size_t size) {
  std::string bytes;
  ARGOSY_CHECK(
      store::receive(socket_, size, bytes, io_limit()) == store::IoResult::Done,
      "[bench] redis-server closed the connection");
}

double RedisPeer::echo_us(std::size_t size, int count) {
  const std::string request = command({"ECHO", std::string(size, 'x')});
  const std::size_t reply = str("$", size, "\r\n").size() + size + 2;
  return median_us(count, [&] {
    send(request);
    receive(reply);
  });
}

double RedisPeer::set_us(std::size_t size, int count) {
  const std::string request = command({"SET", "k", std::string(size, 'x')});
  return median_us(count, [&] {
    send(request);
    receive(std::strlen("+OK\r\n"));
  });
}

double RedisPeer::pipelined_rate(std::size_t size, int count) {
  const std::string request = command({"ECHO", std::string(size, 'x')});
  const std::size_t reply = str("$", size, "\r\n").size() + size + 2;
  const auto began = std::chrono::steady_clock::now();
  for (int done = 0; done < count; done += kInFlight) {
    std::string batch;
    for (int i = 0; i < kInFlight; ++i) {
      batch += request;
    }
    send(batch);
    receive(reply * kInFlight);
  }
  const std::chrono::duration<double> passed =
      std::chrono::steady_clock::now() - began;
  return count / passed.count();
}

} // namespace argosy::bench
