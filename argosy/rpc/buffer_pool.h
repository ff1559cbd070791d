#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace argosy::rpc {

// Memory for what arrives. Large buffers are kept for the next message, because
// fresh memory costs more (page faults) than filling it. Thread-safe.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  static constexpr std::size_t kAlignment = 64;

  // Keeps at most `kept_bytes` that nobody uses.
  explicit BufferPool(std::size_t kept_bytes = std::size_t{128} << 20)
      : kept_limit_(kept_bytes) {}
  ~BufferPool();

  // Uninitialised. It comes back when the last reference goes, also after the
  // pool's end.
  std::shared_ptr<std::byte> take(std::size_t bytes);

  std::size_t kept_bytes() const;

 private:
  void give_back(std::byte* memory, std::size_t bytes);

  const std::size_t kept_limit_;
  mutable std::mutex mutex_;
  // Guarded by mutex_: unused buffers by their size.
  std::map<std::size_t, std::vector<std::byte*>> unused_;
  std::size_t kept_ = 0;
};

// The size of the buffer for `bytes`: at most an eighth more, so that messages
// of about the same size share buffers.
std::size_t buffer_bytes(std::size_t bytes);

} // namespace argosy::rpc
