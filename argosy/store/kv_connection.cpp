#include "argosy/store/kv_connection.h"

#include <poll.h>
#include <sys/epoll.h>

#include <array>

#include "argosy/store/wire.h"

namespace argosy::store {

namespace {

constexpr std::size_t kReadChunk = 64 << 10;

} // namespace

KvConnection::KvConnection(
    Stream stream,
    std::uint32_t serial,
    const Credentials& credentials,
    std::string instance)
    : stream_(std::move(stream)),
      serial_(serial),
      greeting_(credentials, std::move(instance)) {}

// How many bytes of the client are welcome now.
std::size_t KvConnection::readable() const {
  switch (greeting_.state()) {
    case ServerGreeting::State::Opening:
      return kOpeningBytes - in_.size();
    case ServerGreeting::State::Proof:
      return kProofBytes - in_.size();
    case ServerGreeting::State::Proven:
    case ServerGreeting::State::Failed:
      break;
  }
  return kReadChunk;
}

bool KvConnection::read_some() {
  std::array<char, kReadChunk> chunk;
  const ssize_t got = stream_.read(chunk.data(), readable());
  if (got > 0) {
    in_.append(chunk.data(), static_cast<std::size_t>(got));
  }
  return got >= 0;
}

bool KvConnection::write_some() {
  while (sent_ < out_.size()) {
    const ssize_t sent = stream_.write(std::string_view(out_).substr(sent_));
    if (sent <= 0) {
      return sent == 0;
    }
    sent_ += static_cast<std::size_t>(sent);
  }
  out_.clear();
  sent_ = 0;
  return true;
}

bool KvConnection::greet() {
  // The binding exists once TLS has delivered a byte.
  if (proven() || in_.empty()) {
    return true;
  }
  const auto state = greeting_.advance(in_, out_, stream_.binding());
  const bool sent = write_some();
  return sent && state != ServerGreeting::State::Failed;
}

std::optional<std::size_t> KvConnection::next_frame() const {
  if (in_.size() < kLengthBytes) {
    return std::nullopt;
  }
  return frame_size(std::string_view(in_).substr(0, kLengthBytes));
}

std::optional<std::string_view> KvConnection::request() const {
  const auto size = next_frame();
  if (!size || in_.size() - kLengthBytes < *size) {
    return std::nullopt;
  }
  return std::string_view(in_).substr(kLengthBytes, *size);
}

void KvConnection::drop_request() {
  in_.erase(0, kLengthBytes + *next_frame());
  // A large request must not hold its memory while the client is idle.
  if (in_.empty() && in_.capacity() > kReadChunk) {
    in_.shrink_to_fit();
  }
}

void KvConnection::reply(const std::string& body) {
  wait.reset();
  out_ = frame_header(body.size()) + body;
  // A failure shows up again as an event of the socket.
  write_some();
}

// A connection either reads a request, waits for keys, or writes a reply. It is
// polled only for that; epoll is level-triggered, so unread input of a waiting
// client would otherwise wake the server again and again. EPOLLRDHUP reports a
// client that dies while it waits.
std::uint32_t KvConnection::interest() const {
  if (!out_.empty()) {
    return (stream_.wanted() == POLLIN ? EPOLLIN : EPOLLOUT) | EPOLLRDHUP;
  }
  if (wait) {
    return EPOLLRDHUP;
  }
  // A TLS handshake may have to write before it can read.
  return (stream_.wanted() == POLLOUT ? EPOLLOUT : EPOLLIN) | EPOLLRDHUP;
}

} // namespace argosy::store
