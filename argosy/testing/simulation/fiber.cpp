#include "argosy/testing/simulation/fiber.h"

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "argosy/common/error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace argosy::testing {

namespace {

std::size_t page_bytes() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

} // namespace

Stacks::~Stacks() {
  for (std::byte* const stack : free_) {
    ::munmap(stack - page_bytes(), kBytes + page_bytes());
  }
}

std::byte* Stacks::take() {
  if (!free_.empty()) {
    std::byte* const stack = free_.back();
    free_.pop_back();
    return stack;
  }
  void* const memory = ::mmap(
      nullptr,
      kBytes + page_bytes(),
      PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK,
      -1,
      0);
  if (memory == MAP_FAILED) {
    throw SystemError(
        str("[testing.simulation] no stack: ", std::strerror(errno)));
  }
  ::mprotect(memory, page_bytes(), PROT_NONE);
  return static_cast<std::byte*>(memory) + page_bytes();
}

Fiber::Fiber(Stacks& stacks, std::function<void()> run)
    : stacks_(stacks), stack_(stacks.take()), run_(std::move(run)) {
  ::getcontext(&own_);
  own_.uc_stack.ss_sp = stack_;
  own_.uc_stack.ss_size = Stacks::kBytes;
  own_.uc_link = nullptr;
  // makecontext() passes ints only.
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  ::makecontext(
      &own_,
      reinterpret_cast<void (*)()>(&Fiber::enter),
      2,
      static_cast<unsigned>(self >> 32),
      static_cast<unsigned>(self & 0xffffffffU));
#if defined(__SANITIZE_THREAD__)
  tsan_fiber_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(tsan_fiber_);
#endif
  stacks_.give_back(stack_);
}

void Fiber::enter(unsigned high, unsigned low) {
  const auto self =
      (static_cast<std::uintptr_t>(high) << 32) | static_cast<uintptr_t>(low);
  auto* const fiber = reinterpret_cast<Fiber*>(self);
  fiber->arrive_in_fiber();
  fiber->run_();
  fiber->ended_ = true;
  fiber->suspend();
}

void Fiber::resume() {
  Exceptions own;
  void* const globals = abi::__cxa_get_globals();
  std::memcpy(&own, globals, sizeof(own));
  std::memcpy(globals, &exceptions_, sizeof(own));
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&caller_fake_stack_, stack_, Stacks::kBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  tsan_caller_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsan_fiber_, 0);
#endif
  ::swapcontext(&caller_, &own_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(caller_fake_stack_, nullptr, nullptr);
#endif
  std::memcpy(&exceptions_, globals, sizeof(own));
  std::memcpy(globals, &own, sizeof(own));
}

void Fiber::suspend() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(
      ended_ ? nullptr : &fake_stack_, caller_stack_, caller_stack_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(tsan_caller_, 0);
#endif
  ::swapcontext(&own_, &caller_);
  arrive_in_fiber();
}

void Fiber::arrive_in_fiber() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(
      fake_stack_, &caller_stack_, &caller_stack_bytes_);
#endif
}

} // namespace argosy::testing
