#include "argosy/rpc/connection.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "argosy/common/error.h"

namespace argosy::rpc {

namespace {

constexpr std::size_t kStagingBytes = 64u << 10;
// A ring can be read in small pieces at no cost, and what is in staging of
// large parts is copied twice.
constexpr std::size_t kRingStagingBytes = 4u << 10;
// Rooms of this size are filled without a detour.
constexpr std::size_t kDirectBytes = 16u << 10;
constexpr std::size_t kFramesInARow = 64;
// Of a ring, where waiting for the end of a row costs more than it saves.
constexpr std::size_t kRingFramesInARow = 16;
constexpr std::chrono::milliseconds kArmDelay(1);
// Tells a connection that the peer's process has ended.
class DeathWatch : public Loop::Source {
 public:
  explicit DeathWatch(std::weak_ptr<Connection> connection)
      : connection_(std::move(connection)) {}

  void on_events(std::uint32_t) override {
    if (const auto connection = connection_.lock()) {
      connection->on_events(EPOLLHUP);
    }
  }

 private:
  const std::weak_ptr<Connection> connection_;
};

} // namespace

std::span<const std::byte> Connection::Segment::rest() const {
  const std::byte* data = part.data != nullptr
      ? part.data
      : reinterpret_cast<const std::byte*>(own.data());
  const std::size_t size = part.data != nullptr ? part.size : own.size();
  return {data + sent, size - sent};
}

Connection::Connection(
    std::shared_ptr<Loop> loop,
    std::unique_ptr<Channel> channel,
    RingChannel* ring,
    std::size_t longest_message,
    std::shared_ptr<BufferPool> buffers)
    : loop_(std::move(loop)),
      channel_(std::move(channel)),
      ring_(ring),
      kick_(ring != nullptr ? -1 : ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      reader_(longest_message, std::move(buffers)),
      staging_(ring != nullptr ? kRingStagingBytes : kStagingBytes) {}

Connection::~Connection() = default;

void Connection::start(
    std::weak_ptr<Owner> owner, std::shared_ptr<const ProcessWatch> process) {
  owner_ = std::move(owner);
  process_ = std::move(process);
  const auto self = shared_from_this();
  {
    const std::lock_guard lock(interest_mutex_);
    interest_ = EPOLLRDHUP | (ring_ == nullptr ? EPOLLIN : 0u);
    watch_id_ = loop_->watch(channel_->fd(), interest_, self);
  }
  if (process_ != nullptr && process_->fd() >= 0) {
    // A copy: several connections to one process share the descriptor, and
    // epoll takes each once.
    process_fd_ = store::Socket(::fcntl(process_->fd(), F_DUPFD_CLOEXEC, 0));
    process_id_ = loop_->watch(
        process_fd_.fd(),
        EPOLLIN | EPOLLONESHOT,
        std::make_shared<DeathWatch>(self));
  }
  if (ring_ != nullptr) {
    loop_->post([self] { self->loop_->add_polled(self); });
  }
}

// ---- receiving

Connection::Received Connection::take_staged(std::span<std::byte> room) {
  const std::size_t n = std::min(room.size(), staged_end_ - staged_begin_);
  std::memcpy(room.data(), staging_.data() + staged_begin_, n);
  staged_begin_ += n;
  reader_.advance(n);
  return Received::Something;
}

ssize_t Connection::read(std::span<std::byte> room) {
  if (drained_) {
    return 0;
  }
  const ssize_t got = channel_->read(room);
  drained_ = channel_->short_read_is_all() && got >= 0 &&
      static_cast<std::size_t>(got) < room.size();
  return got;
}

Connection::Received Connection::fill() {
  const std::span<std::byte> room = reader_.room();
  if (staged_begin_ < staged_end_) {
    return take_staged(room);
  }
  if (room.size() >= kDirectBytes) {
    const ssize_t got = read(room);
    if (got > 0) {
      reader_.advance(static_cast<std::size_t>(got));
    }
    return got > 0 ? Received::Something
        : got == 0 ? Received::Nothing
                   : Received::Ended;
  }
  const ssize_t got = read(staging_);
  if (got <= 0) {
    return got == 0 ? Received::Nothing : Received::Ended;
  }
  staged_begin_ = 0;
  staged_end_ = static_cast<std::size_t>(got);
  return take_staged(room);
}

// With reading_ held. Returns whether there was anything.
bool Connection::receive(std::size_t most_frames) {
  const auto owner = owner_.lock();
  bool moved = false;
  std::size_t frames = 0;
  while (owner != nullptr && !closed_ && !paused_) {
    if (reader_.wants() == FrameReader::Wants::Nothing) {
      owner->on_frame(reader_.take());
      moved = true;
      if (++frames == most_frames) {
        return true;
      }
    } else if (reader_.wants() == FrameReader::Wants::Admission) {
      paused_ = true; // before it asks: resume() may come at once
      if (owner->admit(reader_.header())) {
        paused_ = false;
        reader_.admit();
      } else {
        update_interest();
      }
    } else {
      const Received received = fill();
      if (received == Received::Ended) {
        close("the peer has closed the connection");
      }
      if (received != Received::Something) {
        more_ = false;
        end_of_data();
        return moved;
      }
      moved = true;
      more_ = true;
    }
  }
  return moved;
}

// With reading_ held. What is sent meanwhile goes out in one write.
bool Connection::receive_corked(std::size_t most_frames, bool all) {
  {
    const std::lock_guard lock(sending_);
    corked_ = true;
  }
  bool moved = false;
  try {
    while (receive(most_frames)) {
      moved = true;
      if (!all) {
        break;
      }
    }
  } catch (const std::exception& error) {
    close(str("it sent something else than frames: ", error.what()));
    moved = true;
  }
  const std::lock_guard lock(sending_);
  corked_ = false;
  flush();
  return moved;
}

void Connection::end_of_data() {
  if (hung_up_) {
    close(
        process_ != nullptr && process_->has_ended()
            ? str("its process ", process_->pid(), " has ended")
            : "the peer has closed the connection");
  }
}

// So that other connections have their turn.
void Connection::receive_later() {
  loop_->post([self = shared_from_this()] {
    if (self->armed_ && self->ring_ == nullptr) {
      self->on_events(EPOLLIN); // a ring is polled anyway
    }
  });
}

void Connection::resume() {
  loop_->post([self = shared_from_this()] {
    if (self->paused_.exchange(false)) {
      self->update_interest();
      self->on_events(EPOLLIN);
    }
  });
}

void Connection::defer(std::function<void()> task) {
  if (loop_->on_thread()) {
    loop_->defer(std::move(task));
  } else {
    task();
  }
}

bool Connection::poll() {
  const std::unique_lock reading(reading_, std::try_to_lock);
  if (!reading || closed_) {
    return false;
  }
  bool worked = false;
  if (ring_->got_space()) {
    const std::lock_guard lock(sending_);
    flush();
    worked = true;
  }
  const bool readable = more_ || hung_up_ || ring_->has_data();
  return (armed_ && readable && receive_corked(kRingFramesInARow, false)) ||
      worked;
}

bool Connection::has_work() const {
  return !closed_ &&
      ((armed_ && !paused_ && (more_ || ring_->has_data())) ||
       (!driven_ && ring_->got_space()));
}

// The word in shared memory changes with reading_ held only. If somebody else
// holds it, he drives, or is about to arm the connection (and looks again
// afterwards): in both cases the loop may sleep.
bool Connection::await_event() {
  const std::unique_lock reading(reading_, std::try_to_lock);
  if (!reading || closed_ || !armed_) {
    return true;
  }
  const bool idle = ring_->await_event() && !more_;
  return idle || (paused_ && !ring_->got_space());
}

void Connection::end_wait() {
  const std::unique_lock reading(reading_, std::try_to_lock);
  if (reading) {
    ring_->end_wait();
  }
}

void Connection::on_events(std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) {
    const std::lock_guard lock(sending_);
    flush();
  }
  const bool ended = (events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR)) != 0;
  if (ended) {
    hang_up();
  }
  std::unique_lock reading(reading_, std::try_to_lock);
  if (!reading) {
    kick();
    return;
  }
  drained_ = false;
  receive_corked(kFramesInARow, ended);
  if (ended) {
    close("the peer has closed the connection");
  } else if (more_ && armed_ && !paused_ && !closed_) {
    receive_later();
  }
}

// The descriptor stays readable from now on, so the loop must not look at it.
void Connection::hang_up() {
  hung_up_ = true;
  loop_->forget(watch_id_, channel_->fd());
}

void Connection::wait_for_reply(
    const std::function<bool()>& done, Deadline deadline) {
  const auto ready = [&] { return done() || closed_ || hung_up_; };
  const auto there = [&] {
    if (ring_ != nullptr) {
      return ring_->has_work() || ready();
    }
    drained_ = false; // a look at a socket is a try to read
    return receive(kFramesInARow) || ready();
  };
  if (spin_.spin(there)) {
    return;
  }
  const auto before = Deadline::Clock::now();
  if (ring_ != nullptr) {
    ring_->sleep(ready, deadline);
  } else {
    poll_socket(deadline);
  }
  spin_.slept(Deadline::Clock::now() - before);
}

void Connection::poll_socket(Deadline deadline) {
  pollfd entries[] = {{channel_->fd(), POLLIN, 0}, {kick_.fd(), POLLIN, 0}};
  const auto left = std::max(
      std::chrono::nanoseconds::zero(),
      std::chrono::nanoseconds(deadline.time() - Deadline::Clock::now()));
  const timespec limit{left.count() / 1000000000, left.count() % 1000000000};
  ::ppoll(entries, 2, &limit, nullptr);
  drained_ = entries[0].revents == 0 && !hung_up_;
  if (entries[1].revents != 0) {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(kick_.fd(), &count, sizeof(count));
  }
}

bool Connection::drive(
    const std::function<bool()>& done,
    Deadline deadline,
    const std::function<void()>& first) {
  const std::unique_lock reading(reading_, std::try_to_lock);
  if (!reading) {
    return false;
  }
  driven_ = true;
  drives_.store(
      drives_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  disarm();
  try {
    if (first) {
      first();
    }
    while (!done() && !closed_ && !deadline.expired()) {
      if (ring_ != nullptr && ring_->got_space()) {
        const std::lock_guard lock(sending_);
        flush();
      }
      if (!receive(kFramesInARow) && !done() && !closed_) {
        wait_for_reply(done, deadline);
      }
    }
  } catch (const std::exception& error) {
    close(str("it sent something else than frames: ", error.what()));
  }
  driven_ = false;
  return true;
}

void Connection::kick() {
  if (ring_ != nullptr) {
    ring_->wake_sleeper();
    return;
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(kick_.fd(), &one, sizeof(one));
}

void Connection::disarm() {
  armed_ = false;
  if (ring_ != nullptr) {
    ring_->end_wait();
  } else {
    update_interest();
  }
}

void Connection::arm() {
  std::unique_lock reading(reading_, std::defer_lock);
  while (!armed_ && !driven_ && !closed_ && !reading.try_lock()) {
    if (loop_->on_thread()) {
      armed_ = true; // a callback of a frame that the loop has received
      return;
    }
    std::this_thread::yield(); // the loop holds it, for a moment
  }
  if (!reading.owns_lock()) {
    return; // who drives arms it when he leaves
  }
  armed_ = true;
  if (ring_ == nullptr) {
    update_interest();
  } else {
    ring_->await_event();
  }
  reading.unlock();
  if (more_ || (ring_ != nullptr && ring_->has_work())) {
    receive_later(); // the loop may sleep already
  }
}

void Connection::arm_soon() {
  if (!armed_ && !arm_soon_.exchange(true)) {
    loop_->at_latest(Deadline::Clock::now() + kArmDelay);
  }
}

// Who holds reading_ drives, and asks again when he leaves. The loop, which
// this is, looks at the ring before it sleeps.
void Connection::arm_if_asked() {
  if (!arm_soon_.exchange(false)) {
    return;
  }
  const std::uint64_t before = std::exchange(drives_at_tick_, drives_);
  if (drives_at_tick_ != before) {
    arm_soon();
    return;
  }
  std::unique_lock reading(reading_, std::try_to_lock);
  if (!reading || closed_) {
    return;
  }
  armed_ = true;
  update_interest(); // of a socket
  reading.unlock();
  if (more_) {
    receive_later();
  }
}

// ---- ending

void Connection::close(const std::string& why) {
  {
    const std::lock_guard lock(interest_mutex_);
    if (closed_) {
      return;
    }
    const std::string more = channel_->failure();
    why_ = more.empty() ? why : str(why, " (", more, ")");
    closed_ = true;
  }
  ::shutdown(channel_->fd(), SHUT_RDWR);
  kick();
  loop_->post([self = shared_from_this()] { self->finish(); });
}

void Connection::finish() {
  loop_->forget(watch_id_, channel_->fd());
  if (process_fd_.fd() >= 0) {
    loop_->forget(process_id_, process_fd_.fd());
  }
  loop_->drop_polled(this);
  {
    const std::lock_guard lock(sending_);
    segments_.clear();
    queued_ = 0;
  }
  if (const auto owner = owner_.lock()) {
    owner->on_closed(*this, why_);
  }
}

} // namespace argosy::rpc
