#include "argosy/world/pmi_client.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>

#include "argosy/common/error.h"
#include "argosy/common/net.h"
#include "argosy/common/text.h"
#include "argosy/store/socket.h"

namespace argosy::world {

namespace {

[[noreturn]] void throw_late(const Deadline& deadline) {
  throw TimeoutError(
      str("[world.exchange] no answer from the process manager over PMI "
          "within ",
          deadline.limit_text()));
}

// Waits until the descriptor is ready, for no longer than the deadline.
void await_ready(int fd, short events, const Deadline& deadline) {
  pollfd ready{fd, events, 0};
  for (;;) {
    const auto wait = deadline.remaining(std::chrono::hours(1));
    if (::poll(&ready, 1, static_cast<int>(wait.count())) > 0) {
      return;
    }
    if (deadline.expired()) {
      throw_late(deadline);
    }
  }
}

// Whether the connection, which began without blocking, stands. A manager that
// is stopped leaves it pending.
bool finish_connect(int fd, const Deadline& deadline) {
  await_ready(fd, POLLOUT, deadline);
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  errno = error;
  return error == 0;
}

// Not blocking: send() and receive_line() poll.
int connect_to(const Endpoint& place, const Deadline& deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(place.port);
  if (::getaddrinfo(place.host.c_str(), port.c_str(), &hints, &found) != 0) {
    found = nullptr;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(
      found, &::freeaddrinfo);
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    store::Socket socket(
        ::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket.fd() < 0) {
      continue;
    }
    const bool at_once = ::connect(socket.fd(), a->ai_addr, a->ai_addrlen) == 0;
    if (at_once ||
        (errno == EINPROGRESS && finish_connect(socket.fd(), deadline))) {
      return ::dup(socket.fd());
    }
  }
  throw SystemError(with_errno(
      str("[world.exchange] cannot connect to PMI_PORT=", place.text())));
}

std::map<std::string, std::string> parse_words(const std::string& line) {
  std::map<std::string, std::string> words;
  for (const std::string& word : split(line, ' ')) {
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) {
      words[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  return words;
}

} // namespace

// PMI-1, the protocol between an MPI launcher and its processes: lines of
// "cmd=name key=value ...", each answered by a line. The launcher passes either
// a connected descriptor (PMI_FD), which is not ours to close, or an address
// (PMI_PORT).
PmiClient::PmiClient(const Environment& env, Deadline deadline)
    : deadline_(deadline) {
  if (const auto fd = env.find_int("PMI_FD", 0, 65535)) {
    fd_ = static_cast<int>(*fd);
  } else {
    const auto port = env.find("PMI_PORT");
    ARGOSY_CHECK(port, "[world.exchange] neither PMI_FD nor PMI_PORT is set");
    fd_ = connect_to(
        parse_endpoint(*port, "[world.exchange] PMI_PORT"), deadline_);
    connected_ = true;
  }
  introduce(env);
  ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init");
  ask("cmd=get_maxes", "maxes");
  space_ = ask("cmd=get_my_kvsname", "my_kvsname")["kvsname"];
}

PmiClient::~PmiClient() {
  if (connected_) {
    ::close(fd_);
  }
}

// A new connection first identifies its process, and is told the rank.
void PmiClient::introduce(const Environment& env) {
  if (!connected_) {
    return;
  }
  const std::string id = env.get("PMI_ID", env.get("PMI_RANK", "0"));
  ask(str("cmd=initack pmiid=", id), "initack");
  for (int i = 0; i < 3; ++i) {
    receive("set"); // size, rank, debug
  }
}

void PmiClient::put(const std::string& key, const std::string& value) {
  ask(str("cmd=put kvsname=", space_, " key=", key, " value=", value),
      "put_result");
}

std::string PmiClient::get(const std::string& key) {
  return ask(
      str("cmd=get kvsname=", space_, " key=", key), "get_result")["value"];
}

void PmiClient::barrier() {
  ask("cmd=barrier_in", "barrier_out");
}

void PmiClient::close() {
  ask("cmd=finalize", "finalize_ack");
}

PmiClient::Words PmiClient::ask(
    const std::string& line, const std::string& answer) {
  send(line);
  return receive(answer);
}

void PmiClient::send(const std::string& line) {
  const std::string bytes = line + "\n";
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = ::send(
        fd_,
        bytes.data() + sent,
        bytes.size() - sent,
        MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
      await_ready(fd_, POLLOUT, deadline_);
      continue;
    }
    if (n < 0) {
      throw SystemError(
          with_errno("[world.exchange] cannot write to the PMI connection"));
    }
    sent += static_cast<std::size_t>(n);
  }
}

PmiClient::Words PmiClient::receive(const std::string& answer) {
  const std::string line = receive_line();
  Words words = parse_words(line);
  const bool good =
      words["cmd"] == answer && (!words.contains("rc") || words["rc"] == "0");
  if (!good) {
    throw SystemError(str_format(
        "[world.exchange] the process manager answered \"{}\", expected cmd={}",
        line,
        answer));
  }
  return words;
}

std::string PmiClient::receive_line() {
  for (;;) {
    const std::size_t end = unread_.find('\n');
    if (end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    await_ready(fd_, POLLIN, deadline_);
    std::array<char, 1024> buffer{};
    const ssize_t n = ::read(fd_, buffer.data(), buffer.size());
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
      throw SystemError("[world.exchange] the process manager closed PMI");
    }
    unread_.append(buffer.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
  }
}

} // namespace argosy::world
