#include "argosy/store/peer_user.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdio>
#include <cstring>

#include "argosy/common/file.h"
#include "argosy/common/text.h"

namespace argosy::store {

namespace {

// An end of an IPv4 connection. A server on all interfaces sees IPv4 clients as
// mapped addresses of IPv6.
struct End {
  in_addr_t address = 0;
  in_port_t port = 0;

  bool is_loopback() const { return (ntohl(address) >> 24) == 127; }

  // As the kernel's table writes it.
  std::string word() const {
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), "%08X:%04X", address, ntohs(port));
    return text.data();
  }
};

std::optional<End> to_end(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&address);
    return End{in->sin_addr.s_addr, in->sin_port};
  }
  const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&address);
  if (address.ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
    return std::nullopt;
  }
  End end{.port = in6->sin6_port};
  std::memcpy(&end.address, &in6->sin6_addr.s6_addr[12], sizeof(end.address));
  return end;
}

// Asks the kernel for one socket, which takes microseconds however many there
// are. nullopt if it cannot be asked, or has no such socket.
std::optional<uid_t> user_by_netlink(const End& own, const End& other) {
  const Socket netlink(
      ::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  struct {
    nlmsghdr header{};
    inet_diag_req_v2 request{};
  } question;
  question.header.nlmsg_len = sizeof(question);
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.request.sdiag_family = AF_INET;
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_states = ~0u;
  auto& id = question.request.id;
  id.idiag_sport = own.port;
  id.idiag_dport = other.port;
  id.idiag_src[0] = own.address;
  id.idiag_dst[0] = other.address;
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  // The kernel has answered when send() returns, so nothing here waits.
  std::array<char, 1024> answer{};
  if (::send(netlink.fd(), &question, sizeof(question), MSG_DONTWAIT) < 0 ||
      ::recv(netlink.fd(), answer.data(), answer.size(), MSG_DONTWAIT) <
          static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg)))) {
    return std::nullopt;
  }
  nlmsghdr header{};
  std::memcpy(&header, answer.data(), sizeof(header));
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) {
    return std::nullopt;
  }
  inet_diag_msg found{};
  std::memcpy(&found, answer.data() + NLMSG_HDRLEN, sizeof(found));
  return found.idiag_uid;
}

std::optional<uid_t> user_by_tables(const End& own, const End& other) {
  // The socket may be an IPv6 one, whose words end like those of IPv4.
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const auto table = read_file(path).value_or("");
    if (const auto user = user_in_table(table, own.word(), other.word())) {
      return user;
    }
  }
  return std::nullopt;
}

} // namespace

std::optional<uid_t> user_in_table(
    std::string_view table, std::string_view own, std::string_view other) {
  constexpr std::size_t kUser = 7;
  for (const std::string& line : split(table, '\n')) {
    std::vector<std::string> words;
    for (std::string& word : split(line, ' ')) {
      if (!word.empty()) {
        words.push_back(std::move(word));
      }
    }
    if (words.size() > kUser && words[1].ends_with(own) &&
        words[2].ends_with(other)) {
      const auto user = parse_int(words[kUser]);
      return user ? std::optional(static_cast<uid_t>(*user)) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<uid_t> loopback_peer_user(const Socket& socket) {
  sockaddr_storage here{};
  sockaddr_storage there{};
  socklen_t size = sizeof(here);
  ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&here), &size);
  size = sizeof(there);
  ::getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&there), &size);
  const auto own = to_end(here);
  const auto other = to_end(there);
  if (!own || !other || !other->is_loopback()) {
    return std::nullopt;
  }
  // The other end is its own socket, whose other end is this one.
  const auto user = user_by_netlink(*other, *own);
  return user ? user : user_by_tables(*other, *own);
}

} // namespace argosy::store
