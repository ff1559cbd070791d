#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

#include "argosy/comm/operation/call.h"

namespace argosy::comm {

// Hears of the operations that a rank issues to its groups. A group tells its
// own observers (the flight recorder, the traffic counter) of every step of an
// operation, and the thread observers of the issuing thread of the issue alone.
//
// Observers of a group must be thread-safe, must not throw, and should allocate
// nothing: they run on every operation.
class OperationObserver {
 public:
  // Whatever the observer needs to recognise an operation in later calls.
  using Token = std::uint64_t;

  virtual ~OperationObserver() = default;

  // The calling thread issues an operation to a group of these global ranks.
  virtual Token on_issue(const Call& call, const std::vector<int>& ranks) = 0;
  // The calling thread begins to carry it out, and ends; `error` is null when
  // it succeeded.
  virtual void on_start(Token /*token*/) {}
  virtual void on_end(Token /*token*/, const std::exception* /*error*/) {}
};

// Observes what the thread that constructs it issues, and what it waits for,
// until its destruction. Thread observers nest; destroy them in reverse order.
class ThreadObserver : public OperationObserver {
 public:
  ~ThreadObserver() override;
  ThreadObserver(const ThreadObserver&) = delete;
  ThreadObserver& operator=(const ThreadObserver&) = delete;

  // The thread waits for an operation for the first time. While an observer of
  // waits lives, the group's own thread carries out every operation of this
  // thread, so that before_wait() can let somebody else run meanwhile.
  virtual void before_wait() {}
  virtual void after_wait() {} // also when the wait throws

  // The calling thread's innermost observer of waits, or null.
  static ThreadObserver* of_waits();
  // Tells all observers of the calling thread, the innermost first.
  static void tell_issue(const Call& call, const std::vector<int>& ranks);

 protected:
  enum class Waits { Ignored, Observed };
  explicit ThreadObserver(Waits waits = Waits::Ignored);

 private:
  const Waits waits_;
  ThreadObserver* const outer_;
};

// The observers of one group. They must outlive the operations.
template <std::size_t N>
using Observers = std::array<OperationObserver*, N>;

// Reports one operation to the observers of its group and of this thread.
template <std::size_t N>
class ObservedOperation {
 public:
  ObservedOperation(
      const Observers<N>& observers,
      const Call& call,
      const std::vector<int>& ranks)
      : observers_(observers) {
    for (std::size_t i = 0; i < N; ++i) {
      tokens_[i] = observers_[i]->on_issue(call, ranks);
    }
    ThreadObserver::tell_issue(call, ranks);
  }

  // Carries the operation out, on any thread. Throws what it throws.
  template <typename F>
  void run(const F& operation) const {
    for (std::size_t i = 0; i < N; ++i) {
      observers_[i]->on_start(tokens_[i]);
    }
    try {
      operation();
    } catch (const std::exception& error) {
      end(&error);
      throw;
    }
    end(nullptr);
  }

 private:
  void end(const std::exception* error) const {
    for (std::size_t i = 0; i < N; ++i) {
      observers_[i]->on_end(tokens_[i], error);
    }
  }

  const Observers<N>& observers_;
  std::array<OperationObserver::Token, N> tokens_{};
};

} // namespace argosy::comm
