#include "argosy/comm/message/mail.h"

#include <cstring>
#include <utility>

#include "argosy/common/error.h"

namespace argosy::comm::message {

namespace {

constexpr std::size_t kShortBytes = 4096;
constexpr std::size_t kReplyBytes = 512;
// A watcher ends with its letter, or with the messenger.
constexpr auto kNoLimit = std::chrono::hours(24 * 365);

} // namespace

Mail::Mail(std::string group, Messenger& messenger)
    : group_(std::move(group)),
      messenger_(messenger),
      boxes_(static_cast<std::size_t>(messenger.size())) {}

Mail::~Mail() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (Box& each : boxes_) {
    if (each.watcher.joinable()) {
      each.watcher.join();
    }
  }
}

void Mail::expect_letter(int peer) {
  const std::lock_guard lock(mutex_);
  Box& from = box(peer);
  if (from.expected) {
    return;
  }
  from.letter.resize(sizeof(Head) + kShortBytes);
  from.expected = true;
  try {
    from.arrival = Pending::receive(
        messenger_, peer, Tag::Letter, from.letter.data(), from.letter.size());
  } catch (const Broken&) {
    from.error = std::current_exception(); // of the next message, if any
  }
}

void Mail::read_letter(int peer, Deadline deadline) {
  expect_letter(peer);
  Box& from = box(peer);
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

std::string Mail::mismatch(
    const Head& sent, const Head& expected, int peer) const {
  return str(
      "[comm.recv] group ",
      group_,
      ": rank ",
      peer,
      " sends ",
      sent.count,
      " ",
      to_string(static_cast<DType>(sent.dtype)),
      ", rank ",
      messenger_.rank(),
      " expects ",
      expected.count,
      " ",
      to_string(static_cast<DType>(expected.dtype)));
}

void Mail::send(
    const void* data,
    std::size_t count,
    DType dtype,
    int peer,
    Flight& flight) {
  expect_letter(peer);
  const Head head{count, static_cast<std::uint64_t>(dtype)};
  const std::size_t bytes = count * size_of(dtype);
  const bool is_short = bytes <= kShortBytes;
  const std::size_t length = sizeof(head) + (is_short ? bytes : 0);
  std::byte* letter = flight.scratch(length);
  std::memcpy(letter, &head, sizeof(head));
  if (is_short) {
    if (bytes > 0) {
      std::memcpy(letter + sizeof(head), data, bytes);
    }
    flight.wait(flight.send(peer, Tag::Letter, letter, length));
    return;
  }
  auto* reply = reinterpret_cast<char*>(flight.scratch(kReplyBytes));
  const std::size_t answer =
      flight.receive(peer, Tag::Reply, reply, kReplyBytes);
  flight.send(peer, Tag::Letter, letter, length);
  flight.wait(answer);
  if (reply[0] != '\0') {
    throw InvalidArgument(reply);
  }
  flight.send(peer, Tag::Bulk, data, bytes);
  flight.wait_all();
}

void Mail::receive(
    void* data, std::size_t count, DType dtype, int peer, Flight& flight) {
  read_letter(peer, flight.deadline());
  Box& from = box(peer);
  Head sent;
  std::memcpy(&sent, from.letter.data(), sizeof(sent));
  const Head expected{count, static_cast<std::uint64_t>(dtype)};
  const bool same =
      sent.count == expected.count && sent.dtype == expected.dtype;
  const std::size_t bytes = count * size_of(dtype);
  const std::size_t sent_bytes =
      sent.count * size_of(static_cast<DType>(sent.dtype));
  const bool is_short = sent_bytes <= kShortBytes;
  if (same && is_short && bytes > 0) {
    std::memcpy(data, from.letter.data() + sizeof(sent), bytes);
  }
  {
    const std::lock_guard lock(mutex_);
    from.ready = false;
    from.expected = false;
  }
  expect_letter(peer);
  changed_.notify_all();
  const std::string problem = same ? "" : mismatch(sent, expected, peer);
  if (!is_short) {
    if (same) {
      flight.receive(peer, Tag::Bulk, data, bytes);
    }
    auto* reply = reinterpret_cast<char*>(flight.scratch(kReplyBytes));
    std::strncpy(reply, problem.c_str(), kReplyBytes);
    reply[kReplyBytes - 1] = '\0';
    flight.send(peer, Tag::Reply, reply, kReplyBytes);
    flight.wait_all();
  }
  if (!same) {
    throw InvalidArgument(problem);
  }
}

void Mail::watch(int peer) {
  Box& from = box(peer);
  if (from.watcher.joinable()) {
    return;
  }
  from.watcher = std::thread([this, peer] {
    try {
      for (;;) {
        read_letter(peer, Deadline::after(kNoLimit));
        wait_for_removal(peer);
      }
    } catch (const std::exception&) {
      // Kept in the box.
    }
  });
}

void Mail::wait_for_removal(int peer) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !box(peer).ready || stop_; });
  if (stop_) {
    throw PeerLost("[comm.recv] the group has ended");
  }
}

int Mail::await_any(Deadline deadline) {
  const int size = messenger_.size();
  for (int peer = 0; peer < size; ++peer) {
    if (peer != messenger_.rank()) {
      expect_letter(peer);
      watch(peer);
    }
  }
  int found = -1;
  const auto look = [&] {
    for (int peer = 0; peer < size; ++peer) {
      if (box(peer).ready) {
        found = peer;
        return true;
      }
    }
    for (const Box& each : boxes_) {
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
