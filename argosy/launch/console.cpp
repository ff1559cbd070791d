#include "argosy/launch/console.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <iostream>
#include <mutex>
#include <thread>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"

namespace argosy::launch {

namespace {

using Clock = Deadline::Clock;

// What may wait to be written; twice as much with the launcher's own words.
constexpr std::size_t kMostBytes = std::size_t{1} << 20;
// A console that has taken nothing for so long does not read.
constexpr std::chrono::milliseconds kStuckAfter{2000};
// How long a launcher stays for one that does not read.
constexpr std::chrono::seconds kLastWait{30};
// A pipe takes so much at once or nothing. A write of more would hide progress.
constexpr std::size_t kWriteBytes = 4096;

// The bytes of the next write: whole lines, so that those of several processes
// do not mix, even if one is longer than kWriteBytes.
std::size_t next_write(const std::string& text) {
  const std::size_t fit = text.rfind('\n', kWriteBytes - 1);
  if (fit != std::string::npos) {
    return fit + 1;
  }
  const std::size_t end = text.find('\n');
  return end == std::string::npos ? text.size() : end + 1;
}

} // namespace

struct Console::State {
  const int fd;
  const Fd room; // an eventfd, readable unless the buffer is full

  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  std::string text;
  std::size_t num_dropped = 0; // lines
  bool writing = false;
  bool closed = false; // nobody reads any more
  bool stop = false;
  Clock::time_point progress = Clock::now();
  bool started = false;

  explicit State(int target)
      : fd(target), room(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  bool is_stuck() const { return Clock::now() - progress > kStuckAfter; }

  // With the mutex: makes the eventfd tell whether there is room.
  void tell_room(bool is_room) const {
    std::uint64_t value = 1;
    if (is_room) {
      [[maybe_unused]] const auto n =
          ::write(room.get(), &value, sizeof(value));
    } else {
      [[maybe_unused]] const auto n = ::read(room.get(), &value, sizeof(value));
    }
  }

  void add(std::string_view lines, std::size_t most);
  void say_dropped();
  void run();
};

void Console::State::add(std::string_view lines, std::size_t most) {
  if (lines.empty() || closed) {
    return;
  }
  if (text.empty() && !writing) {
    progress = Clock::now(); // until now it had nothing to read
  }
  if (text.size() + lines.size() > most && is_stuck()) {
    num_dropped += static_cast<std::size_t>(
        std::max<std::ptrdiff_t>(1, std::ranges::count(lines, '\n')));
    return;
  }
  text += lines;
  if (text.size() >= kMostBytes) {
    tell_room(false);
  }
  changed.notify_all();
}

// Once it reads again, and there is room to say it.
void Console::State::say_dropped() {
  if (num_dropped > 0 && text.size() < kMostBytes / 2) {
    text +=
        str("argosy run: ",
            num_dropped,
            " lines are missing here, because this console did not read; log "
            "files have all\n");
    num_dropped = 0;
  }
}

void Console::State::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return stop || !text.empty(); });
    if (text.empty()) {
      return;
    }
    const std::string now = text.substr(0, next_write(text));
    text.erase(0, now.size());
    writing = true;
    lock.unlock();
    const bool written = write_all(fd, now.data(), now.size());
    lock.lock();
    writing = false;
    progress = Clock::now();
    closed = !written;
    if (closed) {
      text.clear();
    }
    say_dropped();
    if (text.size() < kMostBytes) {
      tell_room(true);
    }
    changed.notify_all();
  }
}

Console::Console(int fd) : target_(fd), state_(std::make_shared<State>(fd)) {}

Console::~Console() {
  const std::lock_guard lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
}

namespace {

// The thread begins with the first text: a launcher that says nothing needs
// none.
template <typename State>
void start_writer(const std::shared_ptr<State>& state) {
  if (state->started) {
    return;
  }
  state->started = true;
  // The launcher reads its signals from a descriptor, in its own thread; this
  // one inherits its mask, in which they are blocked.
  std::thread([state] { state->run(); }).detach();
}

} // namespace

void Console::say(std::string_view lines) {
  const std::lock_guard lock(state_->mutex);
  start_writer(state_);
  state_->add(lines, kMostBytes);
}

void Console::say_own(std::string_view text) {
  const std::lock_guard lock(state_->mutex);
  start_writer(state_);
  state_->add(text, 2 * kMostBytes);
}

bool Console::has_room() const {
  const std::lock_guard lock(state_->mutex);
  return state_->text.size() < kMostBytes || state_->is_stuck();
}

int Console::room_fd() const {
  return state_->room.get();
}

void Console::finish(std::chrono::milliseconds limit) {
  std::unique_lock lock(state_->mutex);
  const auto done = [&] { return state_->text.empty() && !state_->writing; };
  while (!done()) {
    const auto seen = state_->progress;
    state_->changed.wait_until(
        lock, seen + limit, [&] { return done() || state_->progress != seen; });
    if (!done() && state_->progress == seen) {
      return;
    }
  }
}

ConsoleStream::ConsoleStream(std::ostream& stream, Console& console)
    : stream_(stream), before_(stream.rdbuf()), console_(console) {
  stream_.flush();
  stream_.rdbuf(this);
}

ConsoleStream::~ConsoleStream() {
  sync();
  stream_.rdbuf(before_);
}

ConsoleStream::int_type ConsoleStream::overflow(int_type letter) {
  if (letter != traits_type::eof()) {
    const char one = traits_type::to_char_type(letter);
    xsputn(&one, 1);
  }
  return 0;
}

std::streamsize ConsoleStream::xsputn(const char* text, std::streamsize size) {
  line_.append(text, static_cast<std::size_t>(size));
  return size;
}

int ConsoleStream::sync() {
  console_.say_own(line_);
  line_.clear();
  return 0;
}

Consoles::Consoles()
    : out_(STDOUT_FILENO),
      err_(STDERR_FILENO),
      cout_(std::make_unique<ConsoleStream>(std::cout, out_)),
      cerr_(std::make_unique<ConsoleStream>(std::cerr, err_)) {}

Consoles::~Consoles() {
  cout_.reset();
  cerr_.reset();
  out_.finish(kLastWait);
  err_.finish(kLastWait);
}

Console& Consoles::of(int fd) {
  return fd == STDOUT_FILENO ? out_ : err_;
}

} // namespace argosy::launch
