#pragma once

#include <mutex>
#include <vector>

#include "argosy/rpc/channel.h"
#include "argosy/store/stream.h"

namespace argosy::rpc {

// Over a Unix or TCP socket, plain or under TLS.
class SocketChannel : public Channel {
 public:
  explicit SocketChannel(store::Stream stream, bool tls)
      : stream_(std::move(stream)), tls_(tls) {}

  ssize_t read(std::span<std::byte> room) override;
  ssize_t write(std::span<const std::byte> bytes) override;
  int fd() const override { return stream_.fd(); }
  bool short_read_is_all() const override { return !tls_; }
  std::string failure() const override;

 private:
  store::Stream stream_;
  const bool tls_;
  mutable std::mutex mutex_; // a TLS session serves one thread at a time
};

// A listening socket without a name in any folder (an abstract one, which goes
// with the process). Throws SystemError.
store::Socket listen_on_unix(const std::string& name);

// Returns a socket that does not block, or one with fd() < 0 and sets errno.
store::Socket connect_unix(const std::string& name);

// The process and user at the other end of a Unix socket.
struct UnixPeer {
  pid_t pid = -1;
  uid_t uid = static_cast<uid_t>(-1);
};
UnixPeer unix_peer(int fd);

// Sends bytes (at least one) with descriptors. Returns as ::sendmsg() does.
ssize_t send_descriptors(
    int fd, std::string_view bytes, const std::vector<int>& descriptors);

// Receives bytes, and appends the descriptors that came with them: at most two;
// more are closed. Returns as ::recvmsg() does.
ssize_t receive_descriptors(
    int fd, std::span<std::byte> room, std::vector<store::Socket>& descriptors);

} // namespace argosy::rpc
