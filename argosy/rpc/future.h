#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>

#include "argosy/common/deadline.h"

namespace argosy::rpc {

// A value, or the exception that came instead of it.
template <typename T>
class Result {
 public:
  Result(T value) : outcome_(std::move(value)) {}
  Result(std::exception_ptr error) : outcome_(std::move(error)) {}

  bool ok() const { return outcome_.index() == 0; }

  // Throws the exception if there is no value.
  const T& value() const& {
    rethrow();
    return std::get<0>(outcome_);
  }
  T value() && {
    rethrow();
    return std::get<0>(std::move(outcome_));
  }

  // Null if there is a value.
  std::exception_ptr error() const {
    return ok() ? nullptr : std::get<1>(outcome_);
  }

 private:
  void rethrow() const {
    if (!ok()) {
      std::rethrow_exception(std::get<1>(outcome_));
    }
  }

  std::variant<T, std::exception_ptr> outcome_;
};

// What a future and whoever completes it share. Thread-safe.
template <typename T>
class FutureState : public std::enable_shared_from_this<FutureState<T>> {
 public:
  using Callback = std::function<void(const Result<T>&)>;

  FutureState() = default;
  virtual ~FutureState() = default;
  FutureState(const FutureState&) = delete;
  FutureState& operator=(const FutureState&) = delete;

  // Only the first call has an effect, and returns true. Runs the callback on
  // this thread before those who wait go on.
  bool complete(Result<T> result) {
    std::unique_lock lock(mutex_);
    if (result_) {
      return false;
    }
    result_.emplace(std::move(result));
    if (callback_) {
      const Callback callback = std::exchange(callback_, nullptr);
      lock.unlock();
      callback(*result_);
      lock.lock();
    }
    done_ = true;
    done_or_woken_.notify_all();
    return true;
  }

  bool done() const { return done_.load(std::memory_order_acquire); }

  // Returns whether the result is there. Overridden where the thread that
  // waits can do the work itself.
  virtual bool await(Deadline deadline) { return sleep(deadline); }

  virtual void cancel() {}

  virtual void on_done(Callback callback) {
    std::unique_lock lock(mutex_);
    if (!result_) {
      callback_ = std::move(callback);
      return;
    }
    lock.unlock();
    callback(*result_);
  }

  // After done().
  Result<T>& result() { return *result_; }

 protected:
  bool sleep(Deadline deadline) {
    std::unique_lock lock(mutex_);
    done_or_woken_.wait_until(
        lock, deadline.time(), [this] { return done_ || woken_; });
    woken_ = false;
    return done_;
  }

  // Ends a sleep() without a result.
  void wake() {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    done_or_woken_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable done_or_woken_;
  // Guarded by mutex_; result_ does not change once it is set.
  std::optional<Result<T>> result_;
  Callback callback_;
  bool woken_ = false;
  std::atomic<bool> done_{false}; // changes with mutex_ held
};

template <typename U, typename T, typename F>
class TransformedState;

// The result of a call that may still be under way. It always comes: at the
// call's deadline at the latest, as an error. To drop a Future is to lose
// interest; the call goes on. Move-only; one thread at a time.
template <typename T>
class Future {
 public:
  Future() = default;
  explicit Future(std::shared_ptr<FutureState<T>> state)
      : state_(std::move(state)) {}

  static Future ready(Result<T> result) {
    auto state = std::make_shared<FutureState<T>>();
    state->complete(std::move(result));
    return Future(std::move(state));
  }

  Future(Future&&) noexcept = default;
  Future& operator=(Future&&) noexcept = default;

  bool valid() const { return state_ != nullptr; }
  bool done() const { return state_->done(); }

  // Blocks until the result is there. Throws what the call failed with: an
  // RpcError. The reference lives as long as the future; of a temporary
  // (`endpoint.call(...).wait()`) the value itself is returned.
  const T& wait() const& { return result().value(); }
  T wait() && { return std::move(result()).value(); }

  // Returns whether the result is there.
  bool wait_until(Deadline deadline) const { return state_->await(deadline); }

  // Calls `callback` once with the result: here if it is there, else on the
  // thread that receives it, where it must not block. At most one callback.
  void then(std::function<void(const Result<T>&)> callback) const {
    state_->on_done(std::move(callback));
  }

  // Ends the call with Failure::Cancelled, unless the result is there, and
  // tells the callee. Does not block.
  void cancel() const { state_->cancel(); }

  // A future of `f(value)`, which the thread that asks for it computes.
  template <typename F>
  auto transform(F f) && -> Future<decltype(f(std::declval<T>()))> {
    using U = decltype(f(std::declval<T>()));
    return Future<U>(std::make_shared<TransformedState<U, T, F>>(
        std::move(state_), std::move(f)));
  }

 private:
  Result<T>& result() const {
    while (!state_->done() &&
           !state_->await(Deadline::after(std::chrono::hours(1)))) {
    }
    return state_->result();
  }

  std::shared_ptr<FutureState<T>> state_;
};

template <typename U, typename T, typename F>
class TransformedState : public FutureState<U> {
 public:
  TransformedState(std::shared_ptr<FutureState<T>> inner, F f)
      : inner_(std::move(inner)), f_(std::move(f)) {}

  bool await(Deadline deadline) override {
    if (!inner_->await(deadline)) {
      return false;
    }
    resolve();
    return true;
  }

  void cancel() override { inner_->cancel(); }

  void on_done(typename FutureState<U>::Callback callback) override {
    FutureState<U>::on_done(std::move(callback));
    // Keeps this alive until the inner result comes, which it always does.
    inner_->on_done([this, self = this->shared_from_this()](const Result<T>&) {
      resolve();
    });
  }

 private:
  void resolve() {
    const std::lock_guard lock(once_);
    if (!resolved_) {
      resolved_ = true;
      this->complete(transformed());
    }
  }

  Result<U> transformed() {
    try {
      return f_(std::move(inner_->result()).value());
    } catch (...) {
      return std::current_exception();
    }
  }

  const std::shared_ptr<FutureState<T>> inner_;
  F f_;
  std::mutex once_;
  bool resolved_ = false; // guarded by once_
};

} // namespace argosy::rpc
