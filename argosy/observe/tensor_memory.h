#pragma once

#include <cstdint>
#include <memory>

namespace argosy {

// Bytes of the CPU tensors of one rank: what is alive, and the most that ever
// was at once. The rank is that of the calling thread's world; all threads
// without a world count as one.
//
// The first meter of the process replaces LibTorch's CPU allocator by one that
// counts and asks the one before it for the memory; it stays. Tensors that are
// older are not counted. A tensor counts for the rank that made it, whoever
// frees it. Make it after init_parallel_env(), which may set an allocator too.
//
// All meters of a rank show the same numbers. Thread-safe.
class TensorMemory {
 public:
  TensorMemory();

  std::int64_t current() const;
  std::int64_t peak() const;

  // The peak is what is alive now.
  void reset_peak();

  struct Account;

 private:
  std::shared_ptr<Account> account_;
};

} // namespace argosy
