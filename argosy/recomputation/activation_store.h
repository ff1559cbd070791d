#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace argosy {

// Where activations wait for their backward, other than in memory. Thread-safe.
class ActivationStore {
 public:
  using Ticket = std::uint64_t;

  virtual ~ActivationStore() = default;

  // Returns when the bytes may be overwritten.
  virtual Ticket put(std::span<const std::byte> bytes) = 0;
  // As many bytes as were put; any number of times.
  virtual void get(Ticket ticket, std::span<std::byte> bytes) = 0;
  // The last call for a ticket. Does not throw.
  virtual void drop(Ticket ticket) noexcept = 0;
};

// In a file of a folder (empty: the system's temporary one; it should lie on a
// disk). The file has no name from the beginning, so it is gone with the
// process however that ends. Space that was dropped is used again. Throws
// SystemError when the folder cannot be written to, put() when it is full.
std::shared_ptr<ActivationStore> open_file_activation_store(
    const std::filesystem::path& folder = {});

} // namespace argosy
