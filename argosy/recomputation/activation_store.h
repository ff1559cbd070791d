#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace argosy {

// Keeps activations outside of memory until backward. Thread-safe.
class ActivationStore {
 public:
  using Ticket = std::uint64_t;

  virtual ~ActivationStore() = default;

  // Copies the bytes; the caller may overwrite them afterwards.
  virtual Ticket put(std::span<const std::byte> bytes) = 0;
  // Reads the bytes back, as many as were put. May be called repeatedly.
  virtual void get(Ticket ticket, std::span<std::byte> bytes) = 0;
  // Releases the bytes; the ticket is invalid afterwards.
  virtual void drop(Ticket ticket) noexcept = 0;
};

// A store in a file in `folder`, which should be on a disk (empty: the system's
// temporary folder). The file has no name, so the system removes it when the
// process ends, also after a crash. Dropped space is reused. Throws SystemError
// if the folder is not writable; put() throws it if the disk is full.
std::shared_ptr<ActivationStore> open_file_activation_store(
    const std::filesystem::path& folder = {});

} // namespace argosy
