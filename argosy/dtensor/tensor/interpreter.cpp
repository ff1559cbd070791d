#include "argosy/dtensor/tensor/interpreter.h"

namespace argosy::dtensor {

std::atomic<const Interpreter*> detail::interpreter{nullptr};

void set_interpreter(const Interpreter* interpreter) {
  detail::interpreter.store(interpreter);
}

void forget_interpreter_error() {
  if (const Interpreter* interpreter = detail::interpreter.load()) {
    interpreter->forget_error();
  }
}

} // namespace argosy::dtensor
