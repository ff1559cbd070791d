#pragma once

#include <cstdint>
#include <memory>

namespace argosy {

// Bytes in CPU tensors of one rank: current and peak. The rank is that of the
// calling thread's world; all threads without a world count together.
//
// The first TensorMemory of the process permanently replaces LibTorch's CPU
// allocator by one that counts and forwards to the previous one. Tensors
// created earlier are not counted. A tensor counts for the rank that created
// it, whichever thread frees it. Construct it after init_parallel_env(), which
// may also set an allocator.
//
// All TensorMemory objects of a rank show the same numbers. Thread-safe.
class TensorMemory {
 public:
  TensorMemory();

  std::int64_t current() const;
  std::int64_t peak() const;

  // Sets the peak to the current value.
  void reset_peak();

  struct Account;

 private:
  std::shared_ptr<Account> account_;
};

} // namespace argosy
