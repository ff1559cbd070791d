#pragma once

#include <chrono>
#include <optional>

namespace argosy {

// While it lives, the operations that this thread issues have this time-out
// instead of their group's.
//
//   {
//     const CallTimeout limit(5s);
//     all_reduce(loss);
//   }
class CallTimeout {
 public:
  explicit CallTimeout(std::chrono::milliseconds timeout);
  ~CallTimeout();
  CallTimeout(const CallTimeout&) = delete;
  CallTimeout& operator=(const CallTimeout&) = delete;

  // The time-out of this thread's innermost scope.
  static std::optional<std::chrono::milliseconds> current();

 private:
  const std::optional<std::chrono::milliseconds> before_;
};

} // namespace argosy
