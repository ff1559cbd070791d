#include "argosy/dtensor/tensor/interpreter.h"

#include <atomic>

namespace argosy::dtensor {

namespace {

// One for the process, as the interpreter is.
std::atomic<const Interpreter*> the_interpreter{nullptr};

} // namespace

void set_interpreter(const Interpreter* interpreter) {
  the_interpreter.store(interpreter);
}

WithoutInterpreter::WithoutInterpreter()
    : interpreter_(the_interpreter.load(std::memory_order_acquire)),
      held_(interpreter_ != nullptr ? interpreter_->let_go() : nullptr) {}

WithoutInterpreter::~WithoutInterpreter() {
  if (held_ != nullptr) {
    interpreter_->take_back(held_);
  }
}

void forget_interpreter_error() {
  if (const Interpreter* interpreter = the_interpreter.load()) {
    interpreter->forget_error();
  }
}

} // namespace argosy::dtensor
