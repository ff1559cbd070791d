#pragma once

#include <chrono>
#include <functional>
#include <memory>

// Time as a thread sees it. Code that takes its time and its waits from here
// runs unchanged on simulated time (argosy/testing/simulation/).
namespace argosy {

// A thread beside the one that started it, which sleeps between the things that
// it does.
class Background {
 public:
  class Sleeper {
   public:
    // Returns false, at once, when the thread was told to stop.
    virtual bool sleep_until(std::chrono::steady_clock::time_point time) = 0;

   protected:
    ~Sleeper() = default;
  };
  using Work = std::function<void(Sleeper&)>;

  // Stops as stop() does.
  virtual ~Background() = default;

  // Ends the thread's sleep and waits until its work has returned. Later calls
  // do nothing.
  virtual void stop() = 0;
};

// A source of time other than the machine's clock.
class Timeline {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  virtual ~Timeline() = default;

  virtual TimePoint now() = 0;
  virtual void sleep_until(TimePoint time) = 0;
  virtual std::unique_ptr<Background> start(Background::Work work) = 0;
};

// While it lives, the calling thread's time comes from `timeline`.
class ScopedTimeline {
 public:
  explicit ScopedTimeline(Timeline& timeline);
  ~ScopedTimeline();
  ScopedTimeline(const ScopedTimeline&) = delete;
  ScopedTimeline& operator=(const ScopedTimeline&) = delete;

 private:
  Timeline* const outer_;
};

// The calling thread's time: the machine's steady clock unless a ScopedTimeline
// says otherwise.
Timeline::TimePoint time_now();
void sleep_until(Timeline::TimePoint time);
void sleep_for(std::chrono::nanoseconds time);

// Runs `work` beside the caller, on the caller's timeline. An exception that
// leaves it ends the program, as that of any thread.
std::unique_ptr<Background> start_background(Background::Work work);

} // namespace argosy
