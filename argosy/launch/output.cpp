#include "argosy/launch/output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

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

void OutputPump::add(Fd pipe, Fd file, int console_fd, std::string prefix) {
  ::fcntl(pipe.get(), F_SETFL, O_NONBLOCK);
  streams_.push_back(
      {std::move(pipe), std::move(file), console_fd, std::move(prefix), ""});
}

void OutputPump::watch(std::vector<pollfd>& polled) const {
  for (const Stream& stream : streams_) {
    polled.push_back({stream.pipe.get(), POLLIN, 0});
  }
}

void OutputPump::pump() {
  std::vector<Stream> open;
  for (Stream& stream : streams_) {
    if (pump(stream)) {
      open.push_back(std::move(stream));
    } else {
      end(stream);
    }
  }
  streams_ = std::move(open);
}

// The supervisor calls this after all workers have ended. A turn reads up to
// 256 KiB, more than a pipe holds by default (64 KiB), so that nothing that was
// written is lost. Does not wait for the end of a pipe, which another process
// may still hold open.
void OutputPump::finish() {
  pump();
  for (Stream& stream : streams_) {
    end(stream);
  }
  streams_.clear();
}

bool OutputPump::pump(Stream& stream) {
  std::array<char, 16384> buffer;
  for (int i = 0; i < kReadsPerTurn; ++i) {
    const ssize_t size =
        ::read(stream.pipe.get(), buffer.data(), buffer.size());
    if (size < 0) {
      return errno == EAGAIN || errno == EINTR;
    }
    if (size == 0) {
      return false;
    }
    take(stream, buffer.data(), static_cast<std::size_t>(size));
  }
  return true;
}

// The file gets the bytes as they come. The console gets whole lines, so that
// the lines of several workers do not mix.
void OutputPump::take(Stream& stream, const char* data, std::size_t size) {
  write_all(stream.file.get(), data, size);
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
  write_all(stream.console_fd, shown.data(), shown.size());
}

void OutputPump::end(Stream& stream) {
  if (!stream.partial.empty()) {
    const std::string shown = str(stream.prefix, stream.partial, "\n");
    write_all(stream.console_fd, shown.data(), shown.size());
  }
}

} // namespace argosy::launch
