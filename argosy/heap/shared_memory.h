#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>

namespace argosy::heap {

// Memory without a name (memfd): nothing of it is left when the
// last process that maps it is gone, however it went.
class SharedMemory {
 public:
  // Of this rank, all zero. Throws SystemError.
  static SharedMemory create(std::size_t bytes);

  // Maps the memory that `description` tells of, from the text that its owner's
  // description() gave. Throws SystemError when this process cannot see it: the
  // owner is on another host, in another container, or another user's.
  static SharedMemory open(const std::string& description, std::size_t bytes);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  // For open(), while the owner keeps it open.
  std::string description() const;

  // All have mapped it: the way in is closed.
  void close_way_in();

  std::byte* get() const { return memory_.get(); }
  std::shared_ptr<std::byte> share() const { return memory_; }
  pid_t owner() const { return owner_; }
  // Whether the owner is a thread of this process.
  bool same_process() const;

 private:
  SharedMemory() = default;

  // Threads of one process share one mapping, which the last of them undoes.
  std::shared_ptr<std::byte> memory_;
  int fd_ = -1;
  pid_t owner_ = -1;
  std::string process_; // see own_process()
};

// Tells processes apart, also those of other hosts and namespaces.
const std::string& own_process();

} // namespace argosy::heap
