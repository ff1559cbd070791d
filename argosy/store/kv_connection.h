#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "argosy/store/greeting.h"
#include "argosy/store/kv_service.h"
#include "argosy/store/stream.h"

namespace argosy::store {

// A client of KvServer: its bytes on the way in and out. Used by the server's
// thread only.
class KvConnection {
 public:
  using Time = KvTable::Time;

  // `serial` is its own: a descriptor's number is given out again.
  KvConnection(
      Stream stream,
      std::uint32_t serial,
      const Credentials& credentials,
      std::string instance);

  int fd() const { return stream_.fd(); }
  std::uint32_t serial() const { return serial_; }
  const Socket& socket() const { return stream_.socket(); }

  // Return false when the connection has ended. read_some() takes no more than
  // the greeting needs until the client has proven itself.
  bool read_some();
  bool write_some();

  // Advances the greeting with what has been read. Returns false if it failed;
  // distrust() then tells why.
  bool greet();
  bool proven() const {
    return greeting_.state() == ServerGreeting::State::Proven;
  }
  Distrust distrust() const { return greeting_.distrust(); }

  // The size of the frame that has begun; nullopt if its header is not here.
  std::optional<std::size_t> next_frame() const;

  // The payload of a frame that has arrived completely.
  std::optional<std::string_view> request() const;
  void drop_request();

  void reply(const std::string& body);

  // Serves one request at a time, so that a client that sends without reading
  // does not grow our memory.
  bool busy() const { return wait || !out_.empty(); }

  // In the middle of a message, so that the client has to go on.
  bool halfway() const { return !out_.empty() || (!wait && !in_.empty()); }

  // Whether something can be read that epoll does not report.
  bool has_buffered() const { return stream_.has_buffered(); }

  // The events of epoll that it waits for.
  std::uint32_t interest() const;

  std::size_t buffered_bytes() const { return in_.size() + out_.size(); }

  std::optional<PendingWait> wait;

  // When it is closed unless it goes on; nullopt: never.
  std::optional<Time> limit;

 private:
  std::size_t readable() const;

  Stream stream_;
  const std::uint32_t serial_;
  ServerGreeting greeting_;
  std::string in_;
  std::string out_;      // a reply, until it is sent completely
  std::size_t sent_ = 0; // bytes of out_ already sent
};

} // namespace argosy::store
