#include "argosy/fs/command_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/common/process_status.h"
#include "argosy/common/process_watch.h"
#include "argosy/common/shell.h"
#include "argosy/common/sigpipe.h"

namespace argosy::fs {

namespace {

// Closes a descriptor, once.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int get() const { return fd_; }
  void reset() {
    if (fd_ >= 0) {
      ::close(std::exchange(fd_, -1));
    }
  }

 private:
  int fd_;
};

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw SystemError(with_errno("[fs.command] cannot make a pipe"));
  }
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// Writes a stream into a pipe, on a thread of its own, until the other end is
// closed.
class Feeder {
 public:
  Feeder(ByteStream& input, Descriptor pipe, std::chrono::milliseconds limit)
      : thread_([this, &input, limit, pipe = std::move(pipe)] {
          try {
            feed(input, pipe.get(), limit);
          } catch (...) {
            error_ = std::current_exception();
            has_failed_ = true; // before the command sees the pipe's end
          }
        }) {}
  ~Feeder() {
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  Feeder(const Feeder&) = delete;
  Feeder& operator=(const Feeder&) = delete;

  // Whether reading the input threw. What the command writes from then on is
  // not of the whole input.
  bool has_failed() const { return has_failed_; }

  // Waits for the end; throws what reading the input threw.
  void finish() {
    if (thread_.joinable()) {
      thread_.join();
    }
    if (error_) {
      std::rethrow_exception(error_);
    }
  }

 private:
  static void feed(
      ByteStream& input, int pipe, std::chrono::milliseconds limit) {
    const WithoutSigpipe no_signal;
    std::vector<char> buffer(std::size_t{256} << 10);
    for (;;) {
      std::span<const char> left =
          std::span(buffer).first(input.read(buffer, Deadline::after(limit)));
      if (left.empty()) {
        return;
      }
      while (!left.empty()) {
        const ssize_t written = ::write(pipe, left.data(), left.size());
        if (written < 0 && errno == EINTR) {
          continue;
        }
        if (written < 0) {
          return; // the command does not want more
        }
        left = left.subspan(static_cast<std::size_t>(written));
      }
    }
  }

  std::exception_ptr error_; // read when the thread has ended
  std::atomic<bool> has_failed_{false};
  std::thread thread_;
};

class CommandStream final : public ByteStream {
 public:
  CommandStream(
      std::string command,
      std::unique_ptr<ByteStream> input,
      std::chrono::milliseconds limit)
      : command_(std::move(command)), input_(std::move(input)) {
    Pipe output = make_pipe();
    if (input_->descriptor() >= 0) {
      pid_ =
          start_shell(command_, input_->descriptor(), output.write_end.get());
    } else {
      Pipe to_command = make_pipe();
      pid_ = start_shell(
          command_, to_command.read_end.get(), output.write_end.get());
      feeder_ = std::make_unique<Feeder>(
          *input_, std::move(to_command.write_end), limit);
    }
    output_ = std::move(output.read_end);
  }

  // The command first: the feeder's write returns when nobody reads.
  ~CommandStream() override {
    if (pid_ > 0) {
      end_shell(pid_);
    }
  }
  CommandStream(const CommandStream&) = delete;
  CommandStream& operator=(const CommandStream&) = delete;

  std::size_t read(std::span<char> into, Deadline deadline) override {
    if (pid_ <= 0) {
      return 0;
    }
    wait_for_output(deadline);
    ssize_t bytes = 0;
    do {
      bytes = ::read(output_.get(), into.data(), into.size());
    } while (bytes < 0 && errno == EINTR);
    if (bytes < 0) {
      throw SystemError(with_errno(str("[fs.command] ", name())));
    }
    if (feeder_ && feeder_->has_failed()) {
      feeder_->finish();
    }
    if (bytes == 0) {
      finish(deadline);
    }
    return static_cast<std::size_t>(bytes);
  }

  std::string name() const override {
    return str(input_->name(), " through '", command_, "'");
  }

 private:
  void wait_for_output(Deadline deadline) const {
    constexpr std::chrono::milliseconds kSlice(1000);
    pollfd ready{output_.get(), POLLIN, 0};
    while (::poll(
               &ready,
               1,
               static_cast<int>(deadline.remaining(kSlice).count())) <= 0) {
      check_time(deadline, "wrote nothing");
    }
  }

  void check_time(Deadline deadline, const char* what) const {
    if (deadline.expired()) {
      throw TimeoutError(
          str("[fs.command] ",
              name(),
              ": the command ",
              what,
              " for ",
              deadline.limit_text()));
    }
  }

  // The command has closed its output: it ends now.
  void finish(Deadline deadline) {
    const auto watch = ProcessWatch::of(pid_);
    while (!watch->has_ended()) {
      check_time(deadline, "closed its output, but did not end");
      constexpr std::chrono::milliseconds kSlice(50);
      pollfd ended{watch->fd(), POLLIN, 0};
      ::poll(
          &ended,
          watch->fd() < 0 ? 0 : 1,
          static_cast<int>(deadline.remaining(kSlice).count()));
    }
    const ProcessStatus status =
        ProcessStatus::from_wait(end_shell(std::exchange(pid_, -1)));
    if (!status.success()) {
      throw SystemError(str(
          "[fs.command] ", name(), ": the command failed: ", status.text()));
    }
    if (feeder_) {
      feeder_->finish();
    }
  }

  const std::string command_;
  const std::unique_ptr<ByteStream> input_;
  std::unique_ptr<Feeder> feeder_; // ends before input_
  Descriptor output_;
  pid_t pid_ = -1;
};

} // namespace

std::unique_ptr<ByteStream> make_command_stream(
    const std::string& command,
    std::unique_ptr<ByteStream> input,
    std::chrono::milliseconds input_limit) {
  return std::make_unique<CommandStream>(
      command, std::move(input), input_limit);
}

} // namespace argosy::fs
