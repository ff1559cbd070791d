// How a connection sends.

#include <sys/epoll.h>

#include <utility>

#include "argosy/common/error.h"
#include "argosy/rpc/connection.h"

namespace argosy::rpc {

namespace {

// Frames are joined to one write up to this size.
constexpr std::size_t kJoinedFrames = 64u << 10;
// Parts up to this size are copied to the frame's front: one write for both.
constexpr std::size_t kJoinedBytes = 4u << 10;
// What the loop's thread writes in one go while others wait.
constexpr std::size_t kLoopPatience = 2u << 20;

} // namespace

void Connection::send(
    FrameHeader header,
    std::string_view method,
    const Message& message,
    std::shared_ptr<const void> charge) {
  const std::lock_guard lock(sending_);
  if (closed_) {
    return;
  }
  queue(header, method, message, std::move(charge));
  if (!corked_ || queued_ > kJoinedFrames) {
    flush();
  }
}

void Connection::queue(
    FrameHeader& header,
    std::string_view method,
    const Message& message,
    std::shared_ptr<const void> charge) {
  const bool appends = !segments_.empty() &&
      segments_.back().part.data == nullptr &&
      segments_.back().own.size() < kJoinedFrames;
  if (appends) {
    append_front(header, method, message, segments_.back().own);
  } else {
    std::string front = std::exchange(spare_, {});
    append_front(header, method, message, front);
    segments_.push_back({.own = std::move(front)});
  }
  queued_ += kHeaderBytes + method.size() +
      message.parts.size() * sizeof(std::uint64_t) + message.bytes();
  for (const Bytes& part : message.parts) {
    if (part.size <= kJoinedBytes && segments_.back().part.data == nullptr) {
      segments_.back().own.append(part.text());
    } else if (part.size > 0) {
      segments_.push_back({.part = part});
    }
  }
  if (charge != nullptr) {
    segments_.back().charges.push_back(std::move(charge));
  }
}

// For the next segment.
void Connection::keep_memory(std::string& own) {
  if (own.capacity() > spare_.capacity() &&
      own.capacity() <= 2 * kJoinedFrames) {
    spare_ = std::move(own);
  }
  spare_.clear();
}

// With sending_ held. Writes what the channel takes.
void Connection::flush() {
  if (ring_ == nullptr) {
    set_wants_out(!flush_some());
    return;
  }
  do {
    if (ring_->wants_space()) {
      ring_->set_wants_space(false);
    }
  } while (!flush_some() && wait_for_space());
}

// Returns whether everything is written.
bool Connection::flush_some() {
  while (!segments_.empty() && !closed_) {
    Segment& segment = segments_.front();
    const ssize_t n = channel_->write(segment.rest());
    if (n < 0) {
      close("the peer has closed the connection");
      return true;
    }
    if (n == 0) {
      return false;
    }
    segment.sent += static_cast<std::size_t>(n);
    queued_ -= static_cast<std::size_t>(n);
    if (segment.rest().empty()) {
      keep_memory(segment.own);
      segments_.pop_front();
    }
  }
  return true;
}

// Returns whether the ring has space again soon; else the peer will tell.
bool Connection::wait_for_space() {
  const bool patient = queued_ <= kLoopPatience || !loop_->on_thread();
  if (patient &&
      space_spin_.spin([this] { return ring_->has_space() || closed_; })) {
    return !closed_;
  }
  ring_->set_wants_space(true);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return ring_->has_enough_space();
}

void Connection::set_wants_out(bool wants) {
  {
    const std::lock_guard lock(interest_mutex_);
    if (wants_out_ == wants) {
      return;
    }
    wants_out_ = wants;
  }
  update_interest();
}

void Connection::update_interest() {
  if (ring_ != nullptr) {
    return;
  }
  const std::lock_guard lock(interest_mutex_);
  const std::uint32_t events = EPOLLRDHUP |
      (armed_ && !paused_ ? EPOLLIN : 0u) | (wants_out_ ? EPOLLOUT : 0u);
  if (events != interest_ && !closed_ && !hung_up_) {
    interest_ = events;
    loop_->change(watch_id_, channel_->fd(), events);
  }
}

} // namespace argosy::rpc
