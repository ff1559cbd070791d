#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

// Not installed.
namespace argosy::elastic {

// Asks again and again whether an epoch has ended, and acts once when it has:
// a rank that waits for one that waits for nobody any more would not find out,
// and a transport does not always know that a host is dead.
class EpochWatch {
 public:
  // `has_ended` may throw, which is taken for no. Both run on another thread.
  EpochWatch(std::function<bool()> has_ended, std::function<void()> act)
      : has_ended_(std::move(has_ended)),
        act_(std::move(act)),
        thread_([this](const std::stop_token& stop) { watch(stop); }) {}

 private:
  static constexpr std::chrono::milliseconds kInterval{50};

  void watch(const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any ends;
    while (!stop.stop_requested()) {
      if (says_yes()) {
        act_();
        return;
      }
      ends.wait_for(lock, stop, kInterval, [] { return false; });
    }
  }

  bool says_yes() const {
    try {
      return has_ended_();
    } catch (const std::exception&) {
      return false; // whoever communicates finds out what is wrong
    }
  }

  const std::function<bool()> has_ended_;
  const std::function<void()> act_;
  std::jthread thread_; // last: it uses the others
};

} // namespace argosy::elastic
