#include "argosy/rpc/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <new>

namespace argosy::rpc {

namespace {

// Smaller ones come from the heap, which is as fast.
constexpr std::size_t kPooledBytes = 64u << 10;

constexpr std::align_val_t kAligned{BufferPool::kAlignment};

std::byte* allocate_buffer(std::size_t bytes) {
  return static_cast<std::byte*>(::operator new(bytes, kAligned));
}

void free_buffer(std::byte* memory) {
  ::operator delete(memory, kAligned);
}

} // namespace

std::size_t buffer_bytes(std::size_t bytes) {
  if (bytes < kPooledBytes) {
    return std::max(bytes, std::size_t{1});
  }
  const std::size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

BufferPool::~BufferPool() {
  for (const auto& [bytes, buffers] : unused_) {
    std::for_each(buffers.begin(), buffers.end(), free_buffer);
  }
}

std::shared_ptr<std::byte> BufferPool::take(std::size_t bytes) {
  const std::size_t size = buffer_bytes(bytes);
  if (size < kPooledBytes) {
    return {allocate_buffer(size), free_buffer};
  }
  std::byte* memory = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto found = unused_.find(size);
    if (found != unused_.end() && !found->second.empty()) {
      memory = found->second.back();
      found->second.pop_back();
      kept_ -= size;
    }
  }
  if (memory == nullptr) {
    memory = allocate_buffer(size);
  }
  return {memory, [size, pool = weak_from_this()](std::byte* used) {
            if (const auto alive = pool.lock()) {
              alive->give_back(used, size);
            } else {
              free_buffer(used);
            }
          }};
}

void BufferPool::give_back(std::byte* memory, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (kept_ + bytes <= kept_limit_) {
      unused_[bytes].push_back(memory);
      kept_ += bytes;
      return;
    }
  }
  free_buffer(memory);
}

std::size_t BufferPool::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return kept_;
}

} // namespace argosy::rpc
