#include "argosy/data/slots/bad_lines.h"

#include "argosy/common/error.h"
#include "argosy/common/log.h"

namespace argosy::data {

namespace {
constexpr std::size_t kMostSamples = 10;
} // namespace

void BadLines::add(const std::string& file, const SampleFault& fault) {
  const std::string text =
      str_format("{}, {}: {}", file, fault.place, fault.what);
  const std::lock_guard lock(mutex_);
  ++count_;
  ARGOSY_CHECK(
      limit_ < 0 || count_ <= limit_,
      "[data.slots] {} ({} bad line{} in all, expected at most {})",
      text,
      count_,
      count_ == 1 ? "" : "s",
      limit_);
  if (samples_.size() < kMostSamples) {
    samples_.push_back(text);
    log::warn(
        "[data.slots] {}; left out{}",
        text,
        samples_.size() == kMostSamples ? " (further ones are only counted)"
                                        : "");
  }
}

std::int64_t BadLines::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

std::vector<std::string> BadLines::samples() const {
  const std::lock_guard lock(mutex_);
  return samples_;
}

} // namespace argosy::data
