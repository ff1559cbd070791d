#pragma once

#include <ucontext.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace argosy::testing {

// Stacks that fibers have left, for the next ones.
class Stacks {
 public:
  static constexpr std::size_t kBytes = 256 * 1024;

  Stacks() = default;
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  // A stack above a page that may not be touched. Throws SystemError.
  std::byte* take();
  void give_back(std::byte* stack) { free_.push_back(stack); }

 private:
  std::vector<std::byte*> free_;
};

// A function that can be left in its middle and continued later, on the thread
// that made it: a thread of a simulation, whose switches cost no scheduling.
class Fiber {
 public:
  // `run` must not throw. `stacks` must outlive the fiber, which must have
  // ended when it is destroyed.
  Fiber(Stacks& stacks, std::function<void()> run);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Continues the function until it suspends or ends. Not from a fiber.
  void resume();

  // Returns to the caller of resume(). Only from within this fiber.
  void suspend();

  bool has_ended() const { return ended_; }

 private:
  // What the C++ runtime keeps per thread about exceptions in flight: a fiber
  // may be left inside of a catch block.
  using Exceptions = std::array<void*, 2>;

  static void enter(unsigned high, unsigned low);
  void arrive_in_fiber();

  Stacks& stacks_;
  std::byte* const stack_;
  const std::function<void()> run_;
  ucontext_t own_{};
  ucontext_t caller_{};
  Exceptions exceptions_{};
  bool ended_ = false;

  // For sanitizers, which must know of switches.
  void* fake_stack_ = nullptr;
  void* caller_fake_stack_ = nullptr;
  const void* caller_stack_ = nullptr;
  std::size_t caller_stack_bytes_ = 0;
  void* tsan_fiber_ = nullptr;
  void* tsan_caller_ = nullptr;
};

} // namespace argosy::testing
