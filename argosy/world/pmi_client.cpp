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

namespace argosy::world {

namespace {

int connect_to(const Endpoint& place) {
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
    const int fd = ::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && ::connect(fd, a->ai_addr, a->ai_addrlen) == 0) {
      return fd;
    }
    ::close(fd);
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
    fd_ = connect_to(parse_endpoint(*port, "[world.exchange] PMI_PORT"));
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
    const ssize_t n =
        ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) {
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
    pollfd ready{fd_, POLLIN, 0};
    const auto wait = deadline_.remaining(std::chrono::hours(1));
    const int count = ::poll(&ready, 1, static_cast<int>(wait.count()));
    if (count == 0 && deadline_.expired()) {
      throw TimeoutError(
          str("[world.exchange] no answer from the process manager over PMI "
              "within ",
              deadline_.limit_text()));
    }
    std::array<char, 1024> buffer{};
    const ssize_t n =
        count > 0 ? ::read(fd_, buffer.data(), buffer.size()) : -1;
    if (n == 0) {
      throw SystemError("[world.exchange] the process manager closed PMI");
    }
    unread_.append(buffer.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
  }
}

} // namespace argosy::world
