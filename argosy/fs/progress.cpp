#include "argosy/fs/progress.h"

namespace argosy::fs {

namespace {
constexpr std::chrono::seconds kQuietTime(2);
constexpr std::chrono::milliseconds kTellEvery(500);
} // namespace

ProgressMeter::ProgressMeter(
    std::string url,
    std::optional<std::uint64_t> total_bytes,
    OnProgress on_progress)
    : on_progress_(std::move(on_progress)),
      began_(Clock::now()),
      state_{std::move(url), 0, total_bytes, {}},
      next_(began_ + kQuietTime) {}

void ProgressMeter::add(std::uint64_t bytes) {
  if (!on_progress_) {
    return;
  }
  const std::lock_guard lock(mutex_);
  state_.bytes += bytes;
  if (Clock::now() >= next_) {
    tell();
  }
}

void ProgressMeter::finish() {
  const std::lock_guard lock(mutex_);
  if (told_) {
    tell();
  }
}

void ProgressMeter::tell() {
  const auto now = Clock::now();
  told_ = true;
  next_ = now + kTellEvery;
  state_.elapsed = now - began_;
  on_progress_(state_);
}

} // namespace argosy::fs
