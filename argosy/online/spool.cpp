#include "argosy/online/spool.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"

namespace argosy::online {

namespace {

constexpr std::chrono::hours kNever{24 * 365};
constexpr std::size_t kDigits = 12;
constexpr std::string_view kEnding = ".txt";

std::int64_t last_number(const std::filesystem::path& folder) {
  std::int64_t last = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.size() == kDigits + kEnding.size() && name.ends_with(kEnding)) {
      last = std::max<std::int64_t>(
          last,
          parse_int(std::string_view(name).substr(0, kDigits)).value_or(0));
    }
  }
  return last;
}

// Lines that wait for their file.
class Spool {
 public:
  explicit Spool(const SpoolOptions& options) : options_(options) {
    std::filesystem::create_directories(options.folder);
    number_ = last_number(options.folder);
  }

  void add(std::string_view bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t end = bytes.find('\n', at);
      if (end == std::string_view::npos) {
        rest_ += bytes.substr(at);
        return;
      }
      rest_ += bytes.substr(at, end + 1 - at);
      end_line();
      at = end + 1;
    }
  }

  void end() {
    if (!rest_.empty()) {
      rest_ += '\n';
      end_line();
    }
    write();
  }

  // Writes what has become too old.
  void write_if_due() {
    if (due_ && due_->expired()) {
      write();
    }
  }

  std::chrono::milliseconds until_due(std::chrono::milliseconds limit) const {
    return due_ ? due_->remaining(limit) : limit;
  }

  std::int64_t num_lines() const { return num_lines_; }

 private:
  void end_line() {
    if (lines_.empty()) {
      due_ = Deadline::after(options_.max_age);
    }
    lines_ += rest_;
    rest_.clear();
    ++num_lines_;
    if (++waiting_ >= options_.max_lines ||
        lines_.size() >= options_.max_bytes) {
      write();
    }
  }

  void write() {
    due_.reset();
    if (lines_.empty()) {
      return;
    }
    std::string digits = std::to_string(++number_);
    digits.insert(0, kDigits - digits.size(), '0');
    fault_point("online.spool");
    write_file(options_.folder / (digits + std::string(kEnding)), lines_);
    lines_.clear();
    waiting_ = 0;
  }

  const SpoolOptions& options_;
  std::int64_t number_ = 0; // of the last file
  std::string lines_;       // whole lines
  std::string rest_;        // of a line that has not ended
  std::int64_t waiting_ = 0;
  std::int64_t num_lines_ = 0;
  std::optional<Deadline> due_; // when lines_ must be written
};

void check(const SpoolOptions& options) {
  ARGOSY_CHECK(
      options.max_lines > 0 && options.max_bytes > 0 &&
          options.max_age.count() > 0 && options.idle_limit.count() >= 0,
      "[online.spool] files of {} lines, {} bytes, {} ms, an idle limit of {} "
      "ms, expected positive numbers",
      options.max_lines,
      options.max_bytes,
      options.max_age.count(),
      options.idle_limit.count());
}

} // namespace

std::int64_t spool_lines(int descriptor, const SpoolOptions& options) {
  check(options);
  Spool spool(options);
  std::array<char, std::size_t{64} << 10> buffer;
  const std::chrono::milliseconds limit =
      options.idle_limit.count() > 0 ? options.idle_limit : kNever;
  Deadline idle = Deadline::after(limit);
  while (true) {
    pollfd file{.fd = descriptor, .events = POLLIN, .revents = 0};
    const auto wait = spool.until_due(idle.remaining(std::chrono::hours(1)));
    if (::poll(&file, 1, static_cast<int>(wait.count())) < 0 &&
        errno != EINTR) {
      throw SystemError(with_errno("[online.spool] poll"));
    }
    spool.write_if_due();
    if (file.revents == 0) {
      if (idle.expired()) {
        spool.end();
        throw TimeoutError(str_format(
            "[online.spool] nothing has come for {}, after {} lines",
            idle.limit_text(),
            spool.num_lines()));
      }
      continue;
    }
    const ssize_t size = ::read(descriptor, buffer.data(), buffer.size());
    if (size < 0 && errno != EINTR && errno != EAGAIN) {
      throw SystemError(with_errno("[online.spool] read"));
    }
    if (size == 0) {
      spool.end();
      return spool.num_lines();
    }
    if (size > 0) {
      spool.add({buffer.data(), static_cast<std::size_t>(size)});
      idle = Deadline::after(limit);
    }
  }
}

} // namespace argosy::online
