#include "argosy/rpc/greeter.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "argosy/common/error.h"
#include "argosy/store/peer_user.h"

namespace argosy::rpc {

namespace {

using State = store::ServerGreeting::State;

} // namespace

Greeter::Greeter(
    store::Socket socket, bool is_unix, const Host& host, Done done)
    : is_unix_(is_unix),
      host_(host),
      done_(std::move(done)),
      socket_(is_unix ? std::move(socket) : store::Socket()),
      stream_(
          is_unix
              ? store::Stream()
              : store::Stream(
                    std::move(socket), host.tls, store::Stream::Side::Server)),
      greeting_(host.credentials, host.instance),
      reader_(kLongestHello, std::make_shared<BufferPool>(0)) {}

// Returns as Channel::read() does.
ssize_t Greeter::read(std::span<std::byte> room) {
  if (!is_unix_) {
    return stream_.read(reinterpret_cast<char*>(room.data()), room.size());
  }
  const ssize_t got = receive_descriptors(socket_.fd(), room, descriptors_);
  if (greeting_.state() != State::Proven) {
    descriptors_.clear();
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return 0;
  }
  return got > 0 ? got : -1;
}

bool Greeter::write(std::string_view bytes) {
  // Some hundred bytes, for which a new connection has room.
  const ssize_t sent = is_unix_
      ? ::send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL)
      : stream_.write(bytes);
  return sent == static_cast<ssize_t>(bytes.size());
}

void Greeter::on_events(std::uint32_t) {
  const auto self = shared_from_this(); // done_ may drop the last reference
  try {
    while (!ended_) {
      if (greeting_.state() == State::Proven) {
        advance_hello();
        return;
      }
      if (!advance_greeting()) {
        return;
      }
    }
  } catch (const std::exception& error) {
    refuse(error.what());
  }
}

// Returns false if nothing can be done now.
bool Greeter::advance_greeting() {
  const std::size_t expected = greeting_.state() == State::Opening
      ? store::kOpeningBytes
      : store::kProofBytes;
  std::byte bytes[store::kOpeningBytes];
  const ssize_t got =
      read(std::span(bytes).first(expected - std::min(expected, in_.size())));
  if (got <= 0) {
    if (got < 0) {
      ended_ = true;
      done_(*this, {.left = true});
    }
    return false;
  }
  in_.append(
      reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(got));
  std::string out;
  // The binding exists only once the TLS session stands, as it does when bytes
  // have come.
  const State state =
      greeting_.advance(in_, out, is_unix_ ? "" : stream_.binding());
  if (!out.empty() && !write(out)) {
    refuse("it does not take our answer");
    return false;
  }
  if (state == State::Failed) {
    refuse(std::string(to_string(greeting_.distrust())));
    return false;
  }
  if (state == State::Proven && is_other_user()) {
    refuse("another user of this host");
    return false;
  }
  return true;
}

// Where nothing else is asked for, users of one host are kept apart at least.
bool Greeter::is_other_user() const {
  if (host_.credentials.secret || (!is_unix_ && host_.tls != nullptr)) {
    return false;
  }
  const auto user = is_unix_ ? std::optional(unix_peer(socket_.fd()).uid)
                             : store::loopback_peer_user(stream_.socket());
  return user && *user != ::geteuid() && *user != 0;
}

void Greeter::advance_hello() {
  while (reader_.wants() != FrameReader::Wants::Nothing) {
    if (reader_.wants() == FrameReader::Wants::Admission) {
      reader_.admit();
      continue;
    }
    const ssize_t got = read(reader_.room());
    if (got < 0) {
      ended_ = true;
      done_(*this, {.left = true});
    }
    if (got <= 0) {
      return;
    }
    reader_.advance(static_cast<std::size_t>(got));
  }
  welcome(decode_hello(reader_.take()));
}

void Greeter::welcome(const Hello& hello) {
  const std::string answer = encode(Welcome{.known = host_.knows(hello)});
  Outcome outcome{.hello = hello};
  const bool rings = hello.rings && is_unix_ && descriptors_.size() == 2;
  ARGOSY_CHECK(
      rings == hello.rings,
      "[rpc.greet] {} descriptors for shared memory, expected 2",
      descriptors_.size());
  ended_ = true;
  const int own_fd = fd();
  bool sent = false;
  if (rings) {
    RingMemory memory = RingMemory::map(descriptors_[0]);
    sent = send_descriptors(own_fd, answer, {host_.event_fd}) ==
        static_cast<ssize_t>(answer.size());
    auto ring = std::make_unique<RingChannel>(
        std::move(memory),
        RingChannel::Side::Server,
        std::move(socket_),
        std::move(descriptors_[1]));
    outcome.ring = ring.get();
    outcome.channel = std::move(ring);
  } else {
    sent = write(answer);
    outcome.channel = std::make_unique<SocketChannel>(
        is_unix_ ? store::Stream(
                       std::move(socket_), nullptr, store::Stream::Side::Server)
                 : std::move(stream_),
        !is_unix_ && host_.tls != nullptr);
  }
  if (!sent) {
    outcome.refusal = "it does not take our welcome";
  }
  done_(*this, std::move(outcome));
}

void Greeter::refuse(std::string why) {
  if (!ended_) {
    ended_ = true;
    done_(*this, {.refusal = std::move(why)});
  }
}

} // namespace argosy::rpc
