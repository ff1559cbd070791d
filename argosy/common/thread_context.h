#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace argosy {

class ThreadContext;

namespace detail {

// Null before the thread first asks. A plain pointer, which can be read even
// while the thread's other thread_locals and the program's static objects are
// destroyed; ops on DTensors ask several times each, so a read must be one
// instruction (initial-exec), not a call.
extern thread_local constinit ThreadContext* thread_context
    __attribute__((tls_model("initial-exec")));

} // namespace detail

// What the calling thread carries as a rank: its world, the scopes that it is
// inside of (time-outs, recorders, generators), and caches of its own. A rank
// is a thread, so this is where state belongs that is neither an argument nor
// the process's. It is the only thread_local of the library: a thread that
// works for another one takes over what it needs explicitly, by value.
//
// Each type T has one slot, value-initialised when first asked for and
// destroyed with the thread, the youngest first. Define T in the file that uses
// it, so that no other file can reach the slot.
class ThreadContext {
 public:
  // Of the calling thread.
  static ThreadContext& current() {
    ThreadContext* const context = detail::thread_context;
    return context != nullptr ? *context : make_current();
  }

  ThreadContext(const ThreadContext&) = delete;
  ThreadContext& operator=(const ThreadContext&) = delete;

  template <typename T>
  T& get() {
    static const std::size_t index = new_index();
    if (index >= slots_.size() || slots_[index] == nullptr) [[unlikely]] {
      return make<T>(index);
    }
    return *static_cast<T*>(slots_[index]);
  }

 private:
  struct Owner;

  ThreadContext() = default;
  ~ThreadContext();

  static ThreadContext& make_current();
  static std::size_t new_index(); // process-wide, thread-safe

  template <typename T>
  T& make(std::size_t index) {
    auto value = std::make_shared<T>();
    T& result = *value;
    keep(index, std::move(value));
    return result;
  }
  void keep(std::size_t index, std::shared_ptr<void> value);

  std::vector<void*> slots_;                  // by index; null: not made yet
  std::vector<std::shared_ptr<void>> values_; // in the order they were made
};

// The calling thread's T.
template <typename T>
T& of_thread() {
  return ThreadContext::current().get<T>();
}

// While it lives, `slot` has another value: a scope on the stack.
template <typename T>
class ScopedValue {
 public:
  ScopedValue(T& slot, T value) : slot_(slot), outer_(slot) {
    slot_ = std::move(value);
  }
  ~ScopedValue() { slot_ = std::move(outer_); }
  ScopedValue(const ScopedValue&) = delete;
  ScopedValue& operator=(const ScopedValue&) = delete;

  const T& outer() const { return outer_; }

 private:
  T& slot_;
  T outer_;
};

} // namespace argosy
