#pragma once

#include <atomic>

namespace argosy::dtensor {

// What ops must know of an interpreter, such as Python's, that calls them.
struct Interpreter {
  // Lets go of its lock if the calling thread holds it; what it returns is
  // given back to take_back(), if not null. An op that waits for other ranks
  // would keep the lock from those that are threads of this process.
  void* (*let_go)();
  void (*take_back)(void* held);
  // A kernel that it runs has failed, and nobody will hear of it.
  void (*forget_error)();
};

namespace detail {

// One for the process, as the interpreter is. Null: none.
extern std::atomic<const Interpreter*> interpreter;

} // namespace detail

// For all ops on DTensors from now on. Must live as long as the process.
void set_interpreter(const Interpreter* interpreter);

// The calling thread is without its lock while in scope.
class WithoutInterpreter {
 public:
  WithoutInterpreter()
      : interpreter_(detail::interpreter.load(std::memory_order_acquire)),
        held_(interpreter_ != nullptr ? interpreter_->let_go() : nullptr) {}
  ~WithoutInterpreter() {
    if (held_ != nullptr) {
      interpreter_->take_back(held_);
    }
  }
  WithoutInterpreter(const WithoutInterpreter&) = delete;
  WithoutInterpreter& operator=(const WithoutInterpreter&) = delete;

 private:
  const Interpreter* const interpreter_;
  void* const held_;
};

void forget_interpreter_error();

} // namespace argosy::dtensor
