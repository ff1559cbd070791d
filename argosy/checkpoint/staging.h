#pragma once

#include <cstddef>
#include <cstdint>

namespace argosy::checkpoint {

// Memory that is kept from save to save: the first use of a page costs more
// than copying into it. Not thread-safe.
class Staging {
 public:
  Staging() = default;
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Makes room for `bytes`; what was there is lost.
  void reset(std::size_t bytes);
  // The next `bytes`, aligned to cache lines. Throws InternalError if reset()
  // did not make room.
  std::byte* take(std::size_t bytes);

  static std::size_t rounded(std::size_t bytes) {
    return (bytes + 63) / 64 * 64;
  }

 private:
  std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
  std::size_t used_ = 0;
};

} // namespace argosy::checkpoint
