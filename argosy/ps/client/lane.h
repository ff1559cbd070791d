#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/ps/client/router.h"
#include "argosy/ps/service/messages.h"

namespace argosy::ps {

// One client's commands to one region, in order and each executed once, also
// when the leader is lost. Several may be under way; when there are too many,
// send() waits, so a slow server slows the worker and costs no memory.
// Thread-safe.
class Lane {
 public:
  Lane(Router& router, int region, std::uint64_t client, std::size_t window);

  // Numbers and sends a command. `keepers` hold its parts alive: see encode().
  // Throws what an earlier command was refused with.
  void send(
      Command command,
      const std::vector<std::shared_ptr<const void>>& keepers,
      Deadline deadline);

  // Blocks until all commands are acknowledged; returns the last reply.
  Reply flush(Deadline deadline);

  // The number of the next command; a worker that came back goes on where the
  // region says.
  void set_next_number(std::uint64_t number);

 private:
  struct Sent {
    std::uint64_t number = 0;
    rpc::Message message{};
    Router::Attempt attempt{};
    // When it was sent, all before it were acknowledged.
    bool in_front = false;
  };

  void settle_first(Deadline deadline);
  void check_gap(const Sent& first, const Reply& gap) const;
  void send_again(Deadline deadline);

  Router& router_;
  const int region_;
  const std::uint64_t client_;
  const std::size_t window_;

  std::mutex mutex_;
  // Guarded by mutex_.
  std::uint64_t next_number_ = 1;
  std::deque<Sent> unacknowledged_;
  Reply last_reply_{};
};

} // namespace argosy::ps
