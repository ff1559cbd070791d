#include "argosy/rpc/dial.h"

#include <poll.h>

#include <cerrno>
#include <cstring>

#include "argosy/common/backoff.h"
#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/store/greeting.h"

namespace argosy::rpc {

namespace {

void check_io(
    store::IoResult result, std::string_view peer, Deadline deadline) {
  if (result == store::IoResult::TimedOut) {
    throw TimeoutError(str_format(
        "[rpc.connect] {} accepted the connection but did not answer within {}",
        peer,
        deadline.limit_text()));
  }
  if (result == store::IoResult::Closed) {
    throw PeerLost(str_format(
        "[rpc.connect] {} closed the connection before it had greeted", peer));
  }
}

std::string binding_of(const store::Socket&) {
  return "";
}

std::string binding_of(const store::Stream& stream) {
  return stream.binding();
}

// Both sides prove that they are of the job. Returns the peer's instance.
template <typename Wire>
std::string greet(
    Wire& wire,
    const store::Credentials& credentials,
    const std::string& peer,
    Deadline deadline) {
  const store::ClientGreeting greeting(credentials);
  std::string answer;
  check_io(send_all(wire, greeting.opening(), deadline), peer, deadline);
  check_io(
      receive(wire, store::kHello.size(), answer, deadline), peer, deadline);
  if (answer != store::kHello) {
    throw StoreError(str_format(
        "[rpc.connect] {} speaks another protocol, expected an endpoint of "
        "this job",
        peer));
  }
  check_io(
      receive(wire, store::kAnswerBytes - answer.size(), answer, deadline),
      peer,
      deadline);
  const auto accepted = greeting.accept(answer, peer, binding_of(wire));
  check_io(send_all(wire, accepted.proof, deadline), peer, deadline);
  return accepted.instance;
}

// Frames before the connection stands are short and need no shared buffers.
FrameReader hello_reader() {
  return FrameReader(kLongestHello, std::make_shared<BufferPool>(0));
}

// Feeds a reader through `read` until it has a frame.
template <typename Read>
Frame read_frame(const Read& read) {
  FrameReader reader = hello_reader();
  while (reader.wants() != FrameReader::Wants::Nothing) {
    if (reader.wants() == FrameReader::Wants::Admission) {
      reader.admit();
    } else {
      reader.advance(read(reader.room()));
    }
  }
  return reader.take();
}

store::Socket reach_unix(const std::string& name, Deadline deadline) {
  for (Backoff backoff(std::chrono::milliseconds(1));;
       backoff.pause(deadline)) {
    store::Socket socket = connect_unix(name);
    if (socket.fd() >= 0) {
      return socket;
    }
    // EAGAIN: too many are about to connect.
    if (errno != EAGAIN) {
      throw PeerLost(
          with_errno("[rpc.connect] nobody listens at its Unix socket"));
    }
    if (deadline.expired()) {
      throw TimeoutError(str_format(
          "[rpc.connect] its Unix socket took no connection within {}",
          deadline.limit_text()));
    }
  }
}

void send_hello(
    int fd,
    const Hello& hello,
    const std::vector<int>& descriptors,
    const std::string& peer,
    Deadline deadline) {
  const std::string bytes = encode(hello);
  if (!store::await_ready(fd, POLLOUT, deadline)) {
    check_io(store::IoResult::TimedOut, peer, deadline);
  }
  const ssize_t sent = send_descriptors(fd, bytes, descriptors);
  if (sent != static_cast<ssize_t>(bytes.size())) {
    check_io(store::IoResult::Closed, peer, deadline);
  }
}

Frame receive_welcome(
    int fd,
    std::vector<store::Socket>& descriptors,
    const std::string& peer,
    Deadline deadline) {
  return read_frame([&](std::span<std::byte> room) -> std::size_t {
    if (!store::await_ready(fd, POLLIN, deadline)) {
      check_io(store::IoResult::TimedOut, peer, deadline);
    }
    const ssize_t got = receive_descriptors(fd, room, descriptors);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
      check_io(store::IoResult::Closed, peer, deadline);
    }
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  });
}

Dialed dial_unix(
    const Dialer& dialer, const Address& peer, Hello hello, Deadline deadline) {
  const std::string name = str("the peer at ", peer.unix_name);
  store::Socket socket = reach_unix(peer.unix_name, deadline);
  Dialed dialed{.process = ProcessWatch::of(unix_peer(socket.fd()).pid)};
  dialed.instance = greet(socket, dialer.credentials, name, deadline);
  hello.rings = choose_transport(dialer.own, peer) == Transport::SharedMemory;
  std::vector<store::Socket> received;
  if (!hello.rings) {
    check_io(send_all(socket, encode(hello), deadline), name, deadline);
    dialed.session_known =
        decode_welcome(receive_welcome(socket.fd(), received, name, deadline))
            .known;
    dialed.channel = std::make_unique<SocketChannel>(
        store::Stream(std::move(socket), nullptr, store::Stream::Side::Client),
        false);
    return dialed;
  }
  RingMemory memory = RingMemory::create();
  send_hello(
      socket.fd(), hello, {memory.fd(), dialer.event_fd}, name, deadline);
  dialed.session_known =
      decode_welcome(receive_welcome(socket.fd(), received, name, deadline))
          .known;
  ARGOSY_CHECK(
      received.size() == 1,
      "[rpc.connect] {} passed {} descriptors, expected 1",
      name,
      received.size());
  auto ring = std::make_unique<RingChannel>(
      std::move(memory),
      RingChannel::Side::Client,
      std::move(socket),
      std::move(received[0]));
  dialed.ring = ring.get();
  dialed.channel = std::move(ring);
  return dialed;
}

// Looks up now and then, whether it is still wanted.
store::Socket reach_tcp(
    const Dialer& dialer, const argosy::Endpoint& peer, Deadline deadline) {
  constexpr std::chrono::milliseconds kLook(200);
  for (;;) {
    try {
      return store::connect_to(
          peer, deadline.earlier(kLook), "an RPC endpoint");
    } catch (const TimeoutError&) {
      if (deadline.expired() || dialer.stopping) {
        throw;
      }
    }
  }
}

Dialed dial_tcp(
    const Dialer& dialer, const Address& peer, Hello hello, Deadline deadline) {
  const std::string name = peer.tcp.text();
  hello.rings = false;
  store::Stream stream(
      reach_tcp(dialer, peer.tcp, deadline),
      dialer.tls,
      store::Stream::Side::Client);
  Dialed dialed;
  try {
    dialed.instance = greet(stream, dialer.credentials, name, deadline);
  } catch (const PeerLost&) {
    if (stream.failure().empty()) {
      throw;
    }
    throw StoreError(str_format(
        "[rpc.connect] TLS with {} failed: {}, expected certificates that the "
        "authority of the other side has signed",
        name,
        stream.failure()));
  }
  check_io(send_all(stream, encode(hello), deadline), name, deadline);
  const Frame welcome = read_frame([&](std::span<std::byte> room) {
    std::string bytes;
    check_io(receive(stream, room.size(), bytes, deadline), name, deadline);
    std::memcpy(room.data(), bytes.data(), bytes.size());
    return bytes.size();
  });
  dialed.session_known = decode_welcome(welcome).known;
  dialed.channel =
      std::make_unique<SocketChannel>(std::move(stream), dialer.tls != nullptr);
  return dialed;
}

} // namespace

Dialed dial(
    const Dialer& dialer, const Address& peer, Hello hello, Deadline deadline) {
  fault_point("rpc.connect");
  return choose_transport(dialer.own, peer) == Transport::Tcp
      ? dial_tcp(dialer, peer, std::move(hello), deadline)
      : dial_unix(dialer, peer, std::move(hello), deadline);
}

} // namespace argosy::rpc
