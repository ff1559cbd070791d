#include "argosy/launch/output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "argosy/common/error.h"

namespace argosy::launch {

namespace {

// Longer lines are split, to bound memory.
constexpr std::size_t kLongestLine = 1 << 20;

// Reads from one worker before the others get their turn.
constexpr int kReadsPerTurn = 16;

} // namespace

void OutputPump::add(
    Fd pipe,
    Fd file,
    std::string file_name,
    int console_fd,
    std::string prefix) {
  ::fcntl(pipe.get(), F_SETFL, O_NONBLOCK);
  streams_.push_back(
      {.pipe = std::move(pipe),
       .file = std::move(file),
       .file_name = std::move(file_name),
       .console = &consoles_.of(console_fd),
       .prefix = std::move(prefix)});
}

void OutputPump::watch(std::vector<pollfd>& polled) const {
  for (const Stream& stream : streams_) {
    const bool reads = stream.console->has_room();
    polled.push_back(
        {reads ? stream.pipe.get() : stream.console->room_fd(), POLLIN, 0});
  }
}

std::chrono::milliseconds OutputPump::wait_time(
    std::chrono::milliseconds most) const {
  // That a console does not read shows by the time that passes.
  const bool waits = std::ranges::any_of(streams_, [](const Stream& stream) {
    return !stream.console->has_room();
  });
  return waits ? std::min(most, std::chrono::milliseconds(100)) : most;
}

void OutputPump::pump() {
  std::vector<Stream> open;
  for (Stream& stream : streams_) {
    if (pump(stream) != Progress::Ended) {
      open.push_back(std::move(stream));
    } else {
      end(stream);
    }
  }
  streams_ = std::move(open);
}

// The supervisor calls this after all workers have ended. Does not wait for the
// end of a pipe, which another process may still hold open; but for a console
// that reads, until it has taken what was written.
void OutputPump::finish() {
  for (Stream& stream : streams_) {
    while (pump(stream) == Progress::More) {
      pollfd room{stream.console->room_fd(), POLLIN, 0};
      ::poll(&room, 1, stream.console->has_room() ? 0 : 100);
    }
    end(stream);
  }
  streams_.clear();
}

OutputPump::Progress OutputPump::pump(Stream& stream) {
  std::array<char, 16384> buffer;
  for (int i = 0; i < kReadsPerTurn && stream.console->has_room(); ++i) {
    const ssize_t size =
        ::read(stream.pipe.get(), buffer.data(), buffer.size());
    if (size < 0) {
      return errno == EAGAIN || errno == EINTR ? Progress::Empty
                                               : Progress::Ended;
    }
    if (size == 0) {
      return Progress::Ended;
    }
    take(stream, buffer.data(), static_cast<std::size_t>(size));
  }
  return Progress::More;
}

// The file gets the bytes as they come. The console gets whole lines, so that
// the lines of several workers do not mix.
void OutputPump::take(Stream& stream, const char* data, std::size_t size) {
  write_file(stream, data, size);
  stream.partial.append(data, size);
  std::string shown;
  std::size_t begin = 0;
  for (std::size_t end = 0;
       (end = stream.partial.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    shown += stream.prefix;
    shown.append(stream.partial, begin, end + 1 - begin);
  }
  stream.partial.erase(0, begin);
  if (stream.partial.size() > kLongestLine) {
    shown += str(stream.prefix, stream.partial, "\n");
    stream.partial.clear();
  }
  stream.console->say(shown);
}

// Goes on when a file cannot be written: the disk may have room again later,
// and the job is worth more than its log.
void OutputPump::write_file(
    Stream& stream, const char* data, std::size_t size) {
  if (write_all(stream.file.get(), data, size)) {
    return;
  }
  if (stream.bytes_lost == 0) {
    stream.console->say_own(
        str(with_errno(str("argosy run: log file ", stream.file_name)),
            "; the job goes on\n"));
  }
  stream.bytes_lost += size;
}

void OutputPump::end(Stream& stream) {
  if (!stream.partial.empty()) {
    stream.console->say(str(stream.prefix, stream.partial, "\n"));
  }
  if (stream.bytes_lost > 0) {
    stream.console->say_own(str_format(
        "argosy run: log file {}: about {} bytes are missing\n",
        stream.file_name,
        stream.bytes_lost));
  }
}

} // namespace argosy::launch
