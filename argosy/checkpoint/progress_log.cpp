#include "argosy/checkpoint/progress_log.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/log.h"

namespace argosy::checkpoint {

namespace {

constexpr std::chrono::seconds kQuietTime{2};
constexpr std::chrono::seconds kBetweenLines{5};

std::string gigabytes(double bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", bytes / 1e9);
  return text.data();
}

} // namespace

ProgressLog::ProgressLog(
    std::string what, bool enabled, Clock::time_point begin)
    : what_(std::move(what)),
      enabled_(enabled),
      begin_(begin),
      due_(begin + kQuietTime) {}

std::string ProgressLog::next_line(
    std::uint64_t bytes, std::uint64_t total, Clock::time_point now) {
  if (!enabled_ || now < due_) {
    return {};
  }
  due_ = now + kBetweenLines;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const double rate = static_cast<double>(bytes) / seconds;
  const double left = static_cast<double>(total - std::min(bytes, total));
  return str(
      what_,
      ": ",
      gigabytes(static_cast<double>(bytes)),
      " of ",
      gigabytes(static_cast<double>(total)),
      " GB of this rank, ",
      gigabytes(rate),
      " GB/s",
      rate > 0 ? str(", about ", static_cast<long>(left / rate + 1), " s left")
               : "");
}

void ProgressLog::tell(std::uint64_t bytes, std::uint64_t total) {
  const std::string line = next_line(bytes, total, Clock::now());
  if (!line.empty() && log::level() <= log::Level::Warn) {
    log::write(log::Level::Info, line);
  }
}

} // namespace argosy::checkpoint
