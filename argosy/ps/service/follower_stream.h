#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "argosy/rpc/incoming_call.h"
#include "argosy/rpc/message.h"

// What a leader sends to a follower: first the state as of one moment, then
// every command after it, in one order.
namespace argosy::ps {

enum class StreamKind : std::uint8_t {
  Header,  // begins a session: the state without rows
  Rows,    // of a table
  End,     // of the state
  Command, // after the state's moment
  Admit    // the follower is the backup from now on
};

struct StreamMessage {
  std::uint32_t region = 0;
  std::uint64_t epoch = 0;   // of the leader
  std::uint64_t session = 0; // of this follower with this leader
  std::uint64_t index = 0;   // within the session, from 0 on
  StreamKind kind = StreamKind::Command;
  std::uint32_t table = 0;  // Rows
  std::uint64_t number = 0; // of the last command
  rpc::Message message{};   // a command, or its first part: header or rows
};

rpc::Message encode(StreamMessage message);
// Throws InvalidArgument.
StreamMessage decode_stream(rpc::Message message);

// The follower's side: brings messages into their order and holds commands back
// until the state is there. One thread at a time.
class FollowerStream {
 public:
  using Call = std::shared_ptr<rpc::IncomingCall>;

  // Adds a message. One of a session that is not the current one is dropped,
  // unless it begins a new session.
  void add(StreamMessage message, Call call);

  // The next message in order; nullopt if it has not arrived.
  std::optional<std::pair<StreamMessage, Call>> next();

  std::uint64_t session() const { return session_; }
  void reset();

 private:
  std::uint64_t session_ = 0;
  std::uint64_t next_index_ = 0;
  std::map<std::uint64_t, std::pair<StreamMessage, Call>> early_;
};

} // namespace argosy::ps
