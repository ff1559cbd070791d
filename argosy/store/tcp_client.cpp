#include "argosy/store/tcp_client.h"

#include "argosy/common/backoff.h"
#include "argosy/common/error.h"
#include "argosy/store/error_text.h"

namespace argosy::store {

namespace {

constexpr std::string_view kExpected = "an Argosy key-value server";

[[noreturn]] void throw_foreign(
    const Endpoint& server, const std::string& answer, std::string_view how) {
  throw StoreError(
      str("[store.connect] ",
          server.text(),
          " is not ",
          kExpected,
          ": it ",
          how,
          answer.empty() ? "" : " after ",
          answer.empty() ? "" : quoted_bytes(answer),
          ", expected ",
          quoted_bytes(kHello)));
}

std::string framed(std::string_view what, const std::string& body) {
  ARGOSY_CHECK(
      body.size() <= kLongestFrame,
      "[store.{}] the request has {} bytes, expected at most {}",
      what,
      body.size(),
      kLongestFrame);
  return frame_header(body.size()) + body;
}

void throw_if_refused(const std::string& reply) {
  WireReader in(reply);
  if (static_cast<Status>(in.u8()) == Status::Refused) {
    throw StoreError(in.text());
  }
}

} // namespace

TcpClient::TcpClient(
    const Endpoint& server, Deadline deadline, TcpKvOptions options)
    : server_(server), options_(options) {
  auto socket = connect(deadline, instance_);
  if (!socket) {
    throw_foreign(server_, "", "closed the connection");
  }
  give_back(std::move(*socket));
}

// Opens a connection and greets. Returns nullopt if the server closed it
// silently, which our server does only when it stops.
std::optional<Socket> TcpClient::connect(
    Deadline deadline, std::string& instance) {
  Socket socket = connect_to(server_, deadline, kExpected);
  std::string answer;
  IoResult result = send_all(socket, kHello, deadline);
  // Reads one byte first: a foreign server's greeting may be shorter than ours.
  if (result == IoResult::Done) {
    result = receive(socket, 1, answer, deadline);
  }
  if (result == IoResult::Done && answer[0] == kHello[0]) {
    result = receive(socket, kHello.size() - 1, answer, deadline);
  }
  if (result == IoResult::Done && answer != kHello) {
    throw_foreign(server_, answer, "sent another greeting");
  }
  if (result == IoResult::Done) {
    result = receive(socket, kInstanceBytes, instance, deadline);
  }
  if (result == IoResult::TimedOut) {
    throw TimeoutError(str_format(
        "[store.connect] {} accepted the connection but did not answer within "
        "{}, expected {}",
        server_.text(),
        deadline.limit_text(),
        kExpected));
  }
  if (result == IoResult::Closed && !answer.empty()) {
    throw_foreign(server_, answer, "closed the connection");
  }
  return result == IoResult::Done ? std::optional(std::move(socket))
                                  : std::nullopt;
}

Socket TcpClient::reconnect(Deadline deadline) {
  // A server that is gone for good should not cost the whole deadline, which
  // may be half an hour.
  const Deadline limit = deadline.earlier(options_.reconnect);
  std::string instance;
  std::optional<Socket> socket;
  try {
    for (Backoff backoff; !socket; backoff.pause(limit)) {
      instance.clear();
      socket = connect(limit, instance);
    }
  } catch (const TimeoutError& error) {
    if (deadline.expired()) {
      throw;
    }
    throw StoreError(str("[store.connect] the server is lost: ", error.what()));
  }
  if (instance != instance_) {
    throw StoreError(str_format(
        "[store.connect] the server at {} was restarted, so its keys are lost",
        server_.text()));
  }
  return std::move(*socket);
}

// A connection carries one request at a time, so concurrent calls use several.
// A long wait() of one thread then does not block another.
Socket TcpClient::take(Deadline deadline) {
  for (;;) {
    Socket socket;
    {
      const std::lock_guard lock(mutex_);
      if (idle_.empty()) {
        break;
      }
      socket = std::move(idle_.back());
      idle_.pop_back();
    }
    if (is_quiet(socket)) {
      return socket;
    }
  }
  return reconnect(deadline);
}

void TcpClient::give_back(Socket socket) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(socket));
}

IoResult TcpClient::exchange(
    const Socket& socket,
    const std::string& request,
    std::string& reply,
    Deadline deadline) {
  std::string header;
  IoResult result = send_all(socket, request, deadline);
  if (result == IoResult::Done) {
    result = receive(socket, kLengthBytes, header, deadline);
  }
  if (result != IoResult::Done) {
    return result;
  }
  const std::size_t size = frame_size(header);
  return size > kLongestFrame ? IoResult::Closed
                              : receive(socket, size, reply, deadline);
}

std::string TcpClient::call(
    std::string_view what,
    const WireWriter& request,
    Repeat repeat,
    Deadline deadline) {
  const std::string frame = framed(what, request.body());
  for (;;) {
    // take() reconnects, and throws if the server is lost, which ends the loop.
    Socket socket = take(deadline);
    std::string reply;
    const IoResult result = exchange(socket, frame, reply, deadline);
    if (result == IoResult::Done) {
      give_back(std::move(socket));
      throw_if_refused(reply);
      return reply;
    }
    const std::string at = str("[store.", what, "] server ", server_.text());
    if (result == IoResult::TimedOut) {
      throw TimeoutError(
          str(at, " did not answer within ", deadline.limit_text()));
    }
    if (repeat == Repeat::Forbidden) {
      throw StoreError(
          str(at, " closed the connection; whether it did it is unknown"));
    }
  }
}

} // namespace argosy::store
