#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "argosy/common/deadline.h"
#include "argosy/store/credentials.h"
#include "argosy/store/socket.h"

// OpenSSL's types, whose headers are large.
struct ssl_ctx_st;
struct ssl_st;

namespace argosy::store {

// Certificates that are ready for use; null without TLS. Shared by connections.
using TlsContext = std::shared_ptr<ssl_ctx_st>;

// Reads the files; returns null if TLS is off. Throws InvalidArgument, naming
// the file.
TlsContext make_tls_context(const TlsFiles& files);

// A connection that does not block, plain or under TLS.
//
// With TLS, the handshake happens in the first reads and writes. Both sides
// must show a certificate that the other's `ca` has signed; the names in the
// certificates are not looked at, since all nodes of a job may share one.
class Stream {
 public:
  enum class Side { Client, Server };

  Stream() = default;
  Stream(Socket socket, const TlsContext& tls, Side side);

  int fd() const { return socket_.fd(); }
  const Socket& socket() const { return socket_; }

  // Return the number of bytes moved; 0: none now, poll for wanted(); -1: the
  // connection has ended, failure() may tell why.
  ssize_t read(char* bytes, std::size_t count);
  ssize_t write(std::string_view bytes);

  // POLLIN or POLLOUT: what the last call waits for; 0 if it moved bytes.
  short wanted() const { return wanted_; }

  // Whether read() has bytes that poll() does not know of.
  bool has_buffered() const;

  // What TLS says about the end of the connection; empty: nothing.
  const std::string& failure() const { return failure_; }

  // A value that the two ends of one TLS session share, and nobody else;
  // empty without TLS. After the handshake only.
  std::string binding() const;

 private:
  ssize_t fail(int result);
  ssize_t fail_plain(short events);
  ssize_t moved(ssize_t count);

  Socket socket_;
  std::shared_ptr<ssl_st> tls_; // null without TLS
  short wanted_ = 0;
  std::string failure_;
};

IoResult send_all(Stream& stream, std::string_view bytes, Deadline deadline);

// Appends `count` bytes to `bytes`; fewer if the result is not Done.
IoResult receive(
    Stream& stream, std::size_t count, std::string& bytes, Deadline deadline);

} // namespace argosy::store
