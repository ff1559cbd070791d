#include "argosy/comm/message/point_to_point.h"

#include <cstring>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"

namespace argosy::comm::message {

namespace {

constexpr std::size_t kShortBytes = 4096;
constexpr std::size_t kReplyBytes = 512;
// A watcher ends with its envelope, or with the messenger.
constexpr auto kNoLimit = std::chrono::hours(24 * 365);

} // namespace

PointToPoint::PointToPoint(std::string group, Messenger& messenger)
    : group_(std::move(group)),
      messenger_(messenger),
      inboxes_(static_cast<std::size_t>(messenger.size())) {}

PointToPoint::~PointToPoint() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (Inbox& each : inboxes_) {
    if (each.watcher.joinable()) {
      each.watcher.join();
    }
  }
}

void PointToPoint::expect_envelope(int peer) {
  const std::lock_guard lock(mutex_);
  Inbox& from = inbox(peer);
  if (from.expected) {
    return;
  }
  from.envelope.resize(sizeof(Header) + kShortBytes);
  from.expected = true;
  try {
    from.arrival = PeerTransfer::receive(
        messenger_,
        peer,
        Tag::Envelope,
        from.envelope.data(),
        from.envelope.size());
  } catch (const ConnectionLost&) {
    from.error = std::current_exception(); // of the next message, if any
  }
}

// The receiving thread and the watcher of await_any() may both want the next
// envelope: one waits for the transfer, without the lock, and the other waits
// for it.
void PointToPoint::read_envelope(int peer, Deadline deadline) {
  expect_envelope(peer);
  Inbox& from = inbox(peer);
  std::unique_lock lock(mutex_);
  const auto settled = [&] { return from.ready || !from.reading; };
  if (!changed_.wait_until(lock, deadline.time(), settled)) {
    throw TimeoutError(str("[comm.recv] nothing came from rank ", peer));
  }
  if (from.error) {
    std::rethrow_exception(from.error);
  }
  if (from.ready) {
    return;
  }
  from.reading = true;
  lock.unlock();
  std::exception_ptr error;
  try {
    from.arrival.wait(deadline);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  from.reading = false;
  from.ready = error == nullptr;
  from.error = error;
  changed_.notify_all();
  if (error) {
    std::rethrow_exception(error);
  }
}

std::string PointToPoint::mismatch(
    const Header& sent, const Header& expected, int peer) const {
  return str_format(
      "[comm.recv] group {}: rank {} sends {} {}, rank {} expects {} {}",
      group_,
      peer,
      sent.count,
      to_string(static_cast<DType>(sent.dtype)),
      messenger_.rank(),
      expected.count,
      to_string(static_cast<DType>(expected.dtype)));
}

void PointToPoint::send(
    const void* data,
    std::size_t count,
    DType dtype,
    int peer,
    TransferSet& transfers) {
  fault_point("message.send");
  expect_envelope(peer);
  const Header head{count, static_cast<std::uint64_t>(dtype)};
  const std::size_t bytes = count * size_of(dtype);
  const bool is_short = bytes <= kShortBytes;
  const std::size_t length = sizeof(head) + (is_short ? bytes : 0);
  std::byte* envelope = transfers.scratch(length);
  std::memcpy(envelope, &head, sizeof(head));
  if (is_short) {
    if (bytes > 0) {
      std::memcpy(envelope + sizeof(head), data, bytes);
    }
    transfers.wait(transfers.send(peer, Tag::Envelope, envelope, length));
    return;
  }
  auto* reply = reinterpret_cast<char*>(transfers.scratch(kReplyBytes));
  // Posted before the envelope, to which it is the answer.
  const std::size_t answer =
      transfers.receive(peer, Tag::Reply, reply, kReplyBytes);
  transfers.send(peer, Tag::Envelope, envelope, length);
  transfers.wait(answer);
  if (reply[0] != '\0') {
    // It may come without an end.
    throw InvalidArgument(std::string(reply, ::strnlen(reply, kReplyBytes)));
  }
  transfers.send(peer, Tag::Bulk, data, bytes);
  transfers.wait_all();
}

void PointToPoint::receive(
    void* data,
    std::size_t count,
    DType dtype,
    int peer,
    TransferSet& transfers) {
  fault_point("message.recv");
  read_envelope(peer, transfers.deadline());
  Inbox& from = inbox(peer);
  Header sent;
  std::memcpy(&sent, from.envelope.data(), sizeof(sent));
  const Header expected{count, static_cast<std::uint64_t>(dtype)};
  const bool same =
      sent.count == expected.count && sent.dtype == expected.dtype;
  const std::size_t bytes = count * size_of(dtype);
  const std::size_t sent_bytes =
      sent.count * size_of(static_cast<DType>(sent.dtype));
  const bool is_short = sent_bytes <= kShortBytes;
  if (same && is_short && bytes > 0) {
    std::memcpy(data, from.envelope.data() + sizeof(sent), bytes);
  }
  {
    const std::lock_guard lock(mutex_);
    from.ready = false;
    from.expected = false;
  }
  expect_envelope(peer);
  changed_.notify_all();
  const std::string problem = same ? "" : mismatch(sent, expected, peer);
  if (!is_short) {
    if (same) {
      // Posted before the reply, which makes the sender send.
      transfers.receive(peer, Tag::Bulk, data, bytes);
    }
    auto* reply = reinterpret_cast<char*>(transfers.scratch(kReplyBytes));
    std::strncpy(reply, problem.c_str(), kReplyBytes);
    reply[kReplyBytes - 1] = '\0';
    transfers.send(peer, Tag::Reply, reply, kReplyBytes);
    transfers.wait_all();
  }
  if (!same) {
    throw InvalidArgument(problem);
  }
}

void PointToPoint::watch(int peer) {
  Inbox& from = inbox(peer);
  if (from.watcher.joinable()) {
    return;
  }
  from.watcher = std::thread([this, peer] {
    try {
      for (;;) {
        read_envelope(peer, Deadline::after(kNoLimit));
        wait_for_removal(peer);
      }
    } catch (const std::exception&) {
      // Kept in the inbox.
    }
  });
}

void PointToPoint::wait_for_removal(int peer) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !inbox(peer).ready || stop_; });
  if (stop_) {
    throw PeerLost("[comm.recv] the group has ended");
  }
}

int PointToPoint::await_any(Deadline deadline) {
  const int size = messenger_.size();
  for (int peer = 0; peer < size; ++peer) {
    if (peer != messenger_.rank()) {
      expect_envelope(peer);
      watch(peer);
    }
  }
  int found = -1;
  const auto look = [&] {
    for (int peer = 0; peer < size; ++peer) {
      if (inbox(peer).ready) {
        found = peer;
        return true;
      }
    }
    for (const Inbox& each : inboxes_) {
      if (each.error) {
        std::rethrow_exception(each.error);
      }
    }
    return false;
  };
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, deadline.time(), look)) {
    throw TimeoutError("[comm.recv] no message came");
  }
  return found;
}

} // namespace argosy::comm::message
