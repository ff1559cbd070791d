#include "argosy/store/tcp_client.h"

#include "argosy/common/backoff.h"
#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/store/error_text.h"

namespace argosy::store {

namespace {

constexpr std::string_view kExpected = "an Argosy key-value server";

// How long a server may close connections silently until it counts as foreign.
constexpr std::chrono::seconds kPatience(5);
// A server that listens and does not answer for so long is lost.
constexpr std::chrono::seconds kSilence(10);

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
    : server_(server),
      options_(std::move(options)),
      tls_(make_tls_context(options_.credentials.tls)) {
  auto stream = connect_patiently({deadline, deadline}, instance_);
  if (!stream) {
    throw_foreign(server_, "", "closed the connection");
  }
  give_back(std::move(*stream));
}

// Reads what a server of ours answers to the opening, or how a foreign one
// begins.
std::string TcpClient::receive_answer(
    Stream& stream, IoResult& result, Deadline deadline) const {
  std::string answer;
  // Reads one byte first: a foreign server's greeting may be shorter than ours.
  result = receive(stream, 1, answer, deadline);
  if (result == IoResult::Done && answer[0] == kHello[0]) {
    result = receive(stream, kHello.size() - 1, answer, deadline);
  }
  if (result == IoResult::Done && answer != kHello) {
    throw_foreign(server_, answer, "sent another greeting");
  }
  if (result == IoResult::Done) {
    result = receive(stream, kAnswerBytes - kHello.size(), answer, deadline);
  }
  return answer;
}

// Opens a connection and greets. Returns nullopt if the server closed it
// silently, which ours does when it stops or when too many strangers greet it.
std::optional<Stream> TcpClient::connect(
    const Limits& limits, std::string& instance) {
  fault_point("store.connect");
  Stream stream(
      connect_to(server_, limits.reach, kExpected), tls_, Stream::Side::Client);
  const Deadline& deadline = limits.answer;
  const ClientGreeting greeting(options_.credentials);
  std::string answer;
  IoResult result = send_all(stream, greeting.opening(), deadline);
  if (result == IoResult::Done) {
    answer = receive_answer(stream, result, deadline);
  }
  if (result == IoResult::Done) {
    const auto accepted =
        greeting.accept(answer, server_.text(), stream.binding());
    instance = accepted.instance;
    result = send_all(stream, accepted.proof, deadline);
  }
  if (result == IoResult::TimedOut) {
    throw TimeoutError(str_format(
        "[store.connect] {} accepted the connection but did not answer within "
        "{}, expected {}",
        server_text(),
        deadline.limit_text(),
        kExpected));
  }
  if (result == IoResult::Closed && !stream.failure().empty()) {
    throw StoreError(str_format(
        "[store.connect] TLS with {} failed: {}, expected certificates that "
        "the authority of the other side has signed",
        server_.text(),
        stream.failure()));
  }
  if (result == IoResult::Closed && !answer.empty()) {
    throw_foreign(server_, answer, "closed the connection");
  }
  return result == IoResult::Done ? std::optional(std::move(stream))
                                  : std::nullopt;
}

// Tries again for a while when the server closes the connection silently;
// returns nullopt if it still does.
std::optional<Stream> TcpClient::connect_patiently(
    const Limits& limits, std::string& instance) {
  const Deadline patience = limits.reach.earlier(kPatience);
  std::optional<Stream> stream = connect(limits, instance);
  for (Backoff backoff; !stream && !patience.expired();
       backoff.pause(patience)) {
    stream = connect(limits, instance);
  }
  return stream;
}

std::string TcpClient::server_text() const {
  return options_.owner.empty() ? server_.text()
                                : str(server_.text(), " of ", options_.owner);
}

Stream TcpClient::reconnect(Deadline deadline) {
  // A server that is gone for good should not cost the whole deadline, which
  // may be half an hour. One that listens may only be slow.
  const Limits limits{
      deadline.earlier(options_.reconnect), deadline.earlier(kSilence)};
  std::string instance;
  std::optional<Stream> stream;
  try {
    stream = connect_patiently(limits, instance);
  } catch (const TimeoutError& error) {
    if (deadline.expired()) {
      throw;
    }
    throw StoreError(str("[store.connect] the server is lost: ", error.what()));
  }
  if (!stream) {
    throw StoreError(str_format(
        "[store.connect] the server is lost: {} closes all connections",
        server_text()));
  }
  if (instance != instance_) {
    throw StoreError(str_format(
        "[store.connect] the server at {} was restarted, so its keys are lost",
        server_text()));
  }
  return std::move(*stream);
}

// A connection carries one request at a time, so concurrent calls use several.
// A long wait() of one thread then does not block another.
Stream TcpClient::take(Deadline deadline) {
  for (;;) {
    Stream stream;
    {
      const std::lock_guard lock(mutex_);
      if (idle_.empty()) {
        break;
      }
      stream = std::move(idle_.back());
      idle_.pop_back();
    }
    if (is_quiet(stream.socket())) {
      return stream;
    }
  }
  return reconnect(deadline);
}

void TcpClient::give_back(Stream stream) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(stream));
}

IoResult TcpClient::exchange(
    Stream& stream,
    const std::string& request,
    std::string& reply,
    Deadline deadline) {
  std::string header;
  fault_point("store.call");
  IoResult result = send_all(stream, request, deadline);
  fault_point("store.sent");
  if (result == IoResult::Done) {
    result = receive(stream, kLengthBytes, header, deadline);
  }
  if (result != IoResult::Done) {
    return result;
  }
  const std::size_t size = frame_size(header);
  return size > kLongestFrame ? IoResult::Closed
                              : receive(stream, size, reply, deadline);
}

std::string TcpClient::call(
    std::string_view what,
    const WireWriter& request,
    Repeat repeat,
    Deadline deadline) {
  const std::string frame = framed(what, request.body());
  const std::string at = str("[store.", what, "] server ", server_text());
  // A server may take each connection, greet, and close it at the request: the
  // pause keeps the loop from spinning, and the deadline ends it.
  for (Backoff backoff;; backoff.pause(deadline)) {
    if (deadline.expired()) {
      throw TimeoutError(
          str(at, " did not answer within ", deadline.limit_text()));
    }
    // take() reconnects, and throws if the server is lost.
    Stream stream = take(deadline);
    std::string reply;
    const IoResult result = exchange(stream, frame, reply, deadline);
    if (result == IoResult::Done) {
      give_back(std::move(stream));
      throw_if_refused(reply);
      return reply;
    }
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
