#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>

namespace argosy::rpc {

// A connection as two streams of bytes, one each way, that never block. One
// thread may read while another one writes.
class Channel {
 public:
  virtual ~Channel() = default;

  // Return the number of bytes moved; 0: none now; -1: the connection has
  // ended.
  virtual ssize_t read(std::span<std::byte> room) = 0;
  virtual ssize_t write(std::span<const std::byte> bytes) = 0;

  // The socket. It hangs up when the peer dies.
  virtual int fd() const = 0;

  // Whether a read() that does not fill its room has read all there is, so that
  // another one now is in vain.
  virtual bool short_read_is_all() const { return false; }

  // What is known about the end of the connection; may be empty.
  virtual std::string failure() const { return ""; }
};

} // namespace argosy::rpc
