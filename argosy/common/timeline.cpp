#include "argosy/common/timeline.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "argosy/common/thread_context.h"

namespace argosy {

namespace {

struct OwnTimeline {
  Timeline* timeline = nullptr; // null: the machine's
};

// Makes no context for threads that have none: they have no timeline either.
Timeline* own_timeline() {
  return detail::thread_context == nullptr ? nullptr
                                           : of_thread<OwnTimeline>().timeline;
}

class BackgroundThread final : public Background, Background::Sleeper {
 public:
  explicit BackgroundThread(Work work)
      : work_(std::move(work)), thread_([this] { work_(*this); }) {}
  ~BackgroundThread() override { stop(); }

  void stop() override {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    // Joins without the lock, which a thread that ends its sleep needs.
    woken_.notify_all();
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  bool sleep_until(Timeline::TimePoint time) override {
    std::unique_lock lock(mutex_);
    return !woken_.wait_until(lock, time, [this] { return stopped_; });
  }

 private:
  const Work work_;
  std::mutex mutex_;
  std::condition_variable woken_;
  bool stopped_ = false; // guarded by mutex_
  std::thread thread_;   // last: it uses the others
};

} // namespace

ScopedTimeline::ScopedTimeline(Timeline& timeline)
    : outer_(of_thread<OwnTimeline>().timeline) {
  of_thread<OwnTimeline>().timeline = &timeline;
}

ScopedTimeline::~ScopedTimeline() {
  of_thread<OwnTimeline>().timeline = outer_;
}

Timeline::TimePoint time_now() {
  Timeline* const timeline = own_timeline();
  return timeline == nullptr ? std::chrono::steady_clock::now()
                             : timeline->now();
}

void sleep_until(Timeline::TimePoint time) {
  if (Timeline* const timeline = own_timeline()) {
    timeline->sleep_until(time);
  } else {
    std::this_thread::sleep_until(time);
  }
}

void sleep_for(std::chrono::nanoseconds time) {
  sleep_until(time_now() + time);
}

std::unique_ptr<Background> start_background(Background::Work work) {
  if (Timeline* const timeline = own_timeline()) {
    return timeline->start(std::move(work));
  }
  return std::make_unique<BackgroundThread>(std::move(work));
}

} // namespace argosy
