#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>

namespace argosy::heap {

// Anonymous shared memory (memfd): the kernel frees it when the last process
// that maps it ends, however it ends.
class SharedMemory {
 public:
  // Creates zeroed memory owned by this rank. Throws SystemError.
  static SharedMemory create(std::size_t bytes);

  // Maps memory by its owner's description(). Throws SystemError when this
  // process cannot access it because the owner is on another host, in another
  // container, or has another user.
  static SharedMemory open(const std::string& description, std::size_t bytes);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  // For open(); valid until close_way_in().
  std::string description() const;

  // Call when all peers have mapped the memory: later open() calls fail.
  void close_way_in();

  std::byte* get() const { return memory_.get(); }
  std::shared_ptr<std::byte> share() const { return memory_; }
  pid_t owner() const { return owner_; }
  // Whether the owner is a thread of this process.
  bool same_process() const;

 private:
  SharedMemory() = default;

  // Threads of one process share a mapping; the last reference unmaps it.
  std::shared_ptr<std::byte> memory_;
  int fd_ = -1;
  pid_t owner_ = -1;
  std::string process_; // see own_process()
};

// A unique name of this process, also across hosts and namespaces.
const std::string& own_process();

} // namespace argosy::heap
