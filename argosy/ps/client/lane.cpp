#include "argosy/ps/client/lane.h"

#include <utility>

#include "argosy/common/error.h"

namespace argosy::ps {

Lane::Lane(Router& router, int region, std::uint64_t client, std::size_t window)
    : router_(router), region_(region), client_(client), window_(window) {}

void Lane::set_next_number(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  next_number_ = number;
}

void Lane::send(
    Command command,
    const std::vector<std::shared_ptr<const void>>& keepers,
    Deadline deadline) {
  const std::lock_guard lock(mutex_);
  while (unacknowledged_.size() >= window_ ||
         (!unacknowledged_.empty() &&
          unacknowledged_.front().attempt.future.done())) {
    settle_first(deadline);
  }
  command.region = static_cast<std::uint32_t>(region_);
  command.client = client_;
  command.number = next_number_;
  rpc::Message message = encode(command, keepers);
  auto attempt = router_.send(region_, kCommandMethod, message, deadline);
  unacknowledged_.push_back(
      {next_number_++,
       std::move(message),
       std::move(attempt),
       unacknowledged_.empty()});
}

Reply Lane::flush(Deadline deadline) {
  const std::lock_guard lock(mutex_);
  while (!unacknowledged_.empty()) {
    settle_first(deadline);
  }
  return std::exchange(last_reply_, {});
}

void Lane::settle_first(Deadline deadline) {
  Sent& first = unacknowledged_.front();
  std::optional<Reply> reply;
  try {
    reply = router_.finish(region_, std::move(first.attempt), deadline);
  } catch (...) {
    // Refused. Its number is free again in a synchronous job, where it is a
    // step's, and used up in others.
    unacknowledged_.pop_front();
    throw;
  }
  if (!reply) {
    send_again(deadline);
    return;
  }
  if (reply->status == Status::Gap) {
    check_gap(first, *reply);
    send_again(deadline);
    return;
  }
  last_reply_ = std::move(*reply);
  unacknowledged_.pop_front();
}

// A command that came before another one, which was on its way, is told of a
// gap, too. Only if the one before was acknowledged when this one was sent, it
// is lost.
void Lane::check_gap(const Sent& first, const Reply& gap) const {
  const auto last = static_cast<std::uint64_t>(gap.version);
  if (first.in_front && last + 1 < first.number) {
    throw Error(str_format(
        "[ps.client] region {} has lost commands {} to {} of this worker",
        region_,
        last + 1,
        first.number - 1));
  }
}

// All that is not acknowledged, in order: a new leader may lack any of it.
void Lane::send_again(Deadline deadline) {
  for (Sent& sent : unacknowledged_) {
    sent.attempt =
        router_.send(region_, kCommandMethod, sent.message, deadline);
    sent.in_front = &sent == &unacknowledged_.front();
  }
}

} // namespace argosy::ps
