#include "argosy/store/stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "argosy/common/error.h"
#include "argosy/common/sigpipe.h"

namespace argosy::store {

namespace {

std::string tls_error() {
  const unsigned long code = ::ERR_peek_last_error();
  std::array<char, 256> text{};
  ::ERR_error_string_n(code, text.data(), text.size());
  const char* reason = ::ERR_reason_error_string(code);
  return code == 0 ? "" : reason != nullptr ? reason : text.data();
}

void check_tls(bool good, std::string_view what, const std::string& path) {
  ARGOSY_CHECK(
      good, "[store.tls] {} {} cannot be used: {}", what, path, tls_error());
}

} // namespace

TlsContext make_tls_context(const TlsFiles& files) {
  if (!files.on()) {
    return nullptr;
  }
  ::ERR_clear_error();
  TlsContext context(::SSL_CTX_new(::TLS_method()), &::SSL_CTX_free);
  if (context == nullptr) {
    throw SystemError(str("[store.tls] cannot start: ", tls_error()));
  }
  SSL_CTX* tls = context.get();
  // Both sides are ours, so nothing older is needed.
  ::SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION);
  check_tls(
      ::SSL_CTX_use_certificate_chain_file(tls, files.certificate.c_str()) == 1,
      "certificate",
      files.certificate);
  check_tls(
      ::SSL_CTX_use_PrivateKey_file(tls, files.key.c_str(), SSL_FILETYPE_PEM) ==
              1 &&
          ::SSL_CTX_check_private_key(tls) == 1,
      "key",
      files.key);
  check_tls(
      ::SSL_CTX_load_verify_locations(tls, files.ca.c_str(), nullptr) == 1,
      "certificates of the authority",
      files.ca);
  ::SSL_CTX_set_verify(
      tls, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // A ticket would arrive on an idle connection, which must stay quiet.
  ::SSL_CTX_set_num_tickets(tls, 0);
  ::SSL_CTX_set_mode(
      tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return context;
}

Stream::Stream(Socket socket, const TlsContext& tls, Side side)
    : socket_(std::move(socket)) {
  if (tls == nullptr) {
    return;
  }
  tls_ = std::shared_ptr<SSL>(
      ::SSL_new(tls.get()), [](SSL* session) { ::SSL_free(session); });
  if (tls_ == nullptr || ::SSL_set_fd(tls_.get(), socket_.fd()) != 1) {
    throw SystemError(str("[store.tls] cannot connect: ", tls_error()));
  }
  if (side == Side::Server) {
    ::SSL_set_accept_state(tls_.get());
  } else {
    ::SSL_set_connect_state(tls_.get());
  }
}

// What a call of OpenSSL that did not succeed means.
ssize_t Stream::fail(int result) {
  switch (::SSL_get_error(tls_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      wanted_ = POLLIN;
      return 0;
    case SSL_ERROR_WANT_WRITE:
      wanted_ = POLLOUT;
      return 0;
    case SSL_ERROR_SSL:
      failure_ = tls_error();
      return -1;
    default:
      return -1;
  }
}

ssize_t Stream::fail_plain(short events) {
  if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
    return -1;
  }
  wanted_ = events;
  return 0;
}

ssize_t Stream::moved(ssize_t count) {
  wanted_ = 0;
  return count;
}

ssize_t Stream::read(char* bytes, std::size_t count) {
  if (tls_ != nullptr) {
    const WithoutSigpipe guard; // a read may have to answer
    ::ERR_clear_error();
    const int got = ::SSL_read(
        tls_.get(),
        bytes,
        static_cast<int>(std::min<std::size_t>(count, 1u << 30)));
    return got > 0 ? moved(got) : fail(got);
  }
  const ssize_t got = ::recv(socket_.fd(), bytes, count, 0);
  return got > 0 ? moved(got) : got == 0 ? -1 : fail_plain(POLLIN);
}

ssize_t Stream::write(std::string_view bytes) {
  if (tls_ != nullptr) {
    const WithoutSigpipe guard;
    ::ERR_clear_error();
    const int sent = ::SSL_write(
        tls_.get(),
        bytes.data(),
        static_cast<int>(std::min<std::size_t>(bytes.size(), 1u << 30)));
    return sent > 0 ? moved(sent) : fail(sent);
  }
  const ssize_t sent =
      ::send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return sent > 0 ? moved(sent) : fail_plain(POLLOUT);
}

bool Stream::has_buffered() const {
  return tls_ != nullptr && ::SSL_has_pending(tls_.get()) == 1;
}

std::string Stream::binding() const {
  if (tls_ == nullptr) {
    return "";
  }
  constexpr std::string_view kLabel = "EXPORTER-argosy-greeting";
  std::string value(32, '\0');
  const int done = ::SSL_export_keying_material(
      tls_.get(),
      reinterpret_cast<unsigned char*>(value.data()),
      value.size(),
      kLabel.data(),
      kLabel.size(),
      nullptr,
      0,
      0);
  if (done != 1) {
    throw StoreError("[store.tls] the session has no binding value");
  }
  return value;
}

IoResult send_all(Stream& stream, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = stream.write(bytes);
    if (sent < 0) {
      return IoResult::Closed;
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
    if (sent == 0 && !await_ready(stream.fd(), stream.wanted(), deadline)) {
      return IoResult::TimedOut;
    }
  }
  return IoResult::Done;
}

IoResult receive(
    Stream& stream, std::size_t count, std::string& bytes, Deadline deadline) {
  std::array<char, 64 << 10> chunk;
  while (count > 0) {
    const ssize_t got =
        stream.read(chunk.data(), std::min(count, chunk.size()));
    if (got < 0) {
      return IoResult::Closed;
    }
    bytes.append(chunk.data(), static_cast<std::size_t>(got));
    count -= static_cast<std::size_t>(got);
    if (got == 0 && !await_ready(stream.fd(), stream.wanted(), deadline)) {
      return IoResult::TimedOut;
    }
  }
  return IoResult::Done;
}

} // namespace argosy::store
