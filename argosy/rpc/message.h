#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace argosy::rpc {

// Memory that a message refers to without a copy. `keeper` holds it alive; the
// memory must not change until the call that carries it has ended.
struct Bytes {
  const std::byte* data = nullptr;
  std::size_t size = 0;
  std::shared_ptr<const void> keeper{};

  // Of memory that the caller keeps alive until the call has ended.
  static Bytes borrowed(const void* data, std::size_t size) {
    return {static_cast<const std::byte*>(data), size, nullptr};
  }

  // Takes over a vector or string of trivial elements.
  template <typename Container>
  static Bytes owned(Container values) {
    const auto kept = std::make_shared<const Container>(std::move(values));
    return {
        reinterpret_cast<const std::byte*>(kept->data()),
        kept->size() * sizeof(typename Container::value_type),
        kept};
  }

  std::string_view text() const {
    return {reinterpret_cast<const char*>(data), size};
  }
};

// What a call or a reply carries: a small head, which is copied, and large
// parts, which travel without intermediate copies. A part that has arrived is
// aligned to 64 bytes, and its keeper owns it: it may outlive call and
// endpoint.
struct Message {
  std::string head;
  std::vector<Bytes> parts{};

  std::size_t bytes() const {
    std::size_t sum = head.size();
    for (const Bytes& part : parts) {
      sum += part.size;
    }
    return sum;
  }
};

} // namespace argosy::rpc
