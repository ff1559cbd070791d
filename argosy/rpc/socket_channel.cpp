#include "argosy/rpc/socket_channel.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>

#include "argosy/common/error.h"

namespace argosy::rpc {

namespace {

constexpr std::size_t kMostDescriptors = 2;
constexpr int kUnixBacklog = 1024;

struct UnixAddress {
  sockaddr_un address{};
  socklen_t size = 0;

  // Abstract: the name begins with a zero byte.
  explicit UnixAddress(const std::string& name) {
    ARGOSY_CHECK(
        !name.empty() && name.size() < sizeof(address.sun_path),
        "[rpc.unix] a name of {} bytes, expected 1 to {}",
        name.size(),
        sizeof(address.sun_path) - 1);
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    size = static_cast<socklen_t>(
        offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&address);
  }
};

store::Socket new_unix_socket() {
  return store::Socket(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

} // namespace

ssize_t SocketChannel::read(std::span<std::byte> room) {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (tls_) {
    lock.lock();
  }
  return stream_.read(reinterpret_cast<char*>(room.data()), room.size());
}

ssize_t SocketChannel::write(std::span<const std::byte> bytes) {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (tls_) {
    lock.lock();
  }
  return stream_.write(
      {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::string SocketChannel::failure() const {
  const std::lock_guard lock(mutex_);
  return tls_ ? stream_.failure() : "";
}

store::Socket listen_on_unix(const std::string& name) {
  const UnixAddress address(name);
  store::Socket socket = new_unix_socket();
  if (socket.fd() < 0 ||
      ::bind(socket.fd(), address.get(), address.size) != 0 ||
      ::listen(socket.fd(), kUnixBacklog) != 0) {
    throw SystemError(with_errno("[rpc.unix] cannot listen on a Unix socket"));
  }
  return socket;
}

store::Socket connect_unix(const std::string& name) {
  const UnixAddress address(name);
  store::Socket socket = new_unix_socket();
  if (socket.fd() >= 0 &&
      ::connect(socket.fd(), address.get(), address.size) != 0) {
    const int error = errno;
    socket = store::Socket();
    errno = error;
  }
  return socket;
}

UnixPeer unix_peer(int fd) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return {};
  }
  return {credentials.pid, credentials.uid};
}

ssize_t send_descriptors(
    int fd, std::string_view bytes, const std::vector<int>& descriptors) {
  const std::size_t size = descriptors.size() * sizeof(int);
  iovec data{const_cast<char*>(bytes.data()), bytes.size()};
  std::vector<char> control(CMSG_SPACE(size));
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(size);
  std::memcpy(CMSG_DATA(header), descriptors.data(), size);
  return ::sendmsg(fd, &message, MSG_NOSIGNAL);
}

ssize_t receive_descriptors(
    int fd,
    std::span<std::byte> room,
    std::vector<store::Socket>& descriptors) {
  iovec data{room.data(), room.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(8 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  if (got < 0) {
    return got;
  }
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int received = -1;
      std::memcpy(&received, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      store::Socket owned(received);
      if (descriptors.size() < kMostDescriptors) {
        descriptors.push_back(std::move(owned));
      }
    }
  }
  return got;
}

} // namespace argosy::rpc
