#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "argosy/comm/memory/layout.h"

namespace argosy::comm::memory {

// A region in memory without a name (memfd): nothing of it is left when the
// last process that maps it is gone, however it went.
class SharedRegion {
 public:
  // Of this rank, in a group of `num_ranks`. Throws SystemError.
  static SharedRegion create(int num_ranks);

  // Maps the region that `description` tells of, from the text that its owner's
  // description() gave. Throws SystemError when this process cannot see it: the
  // owner is on another host, in another container, or another user's.
  static SharedRegion open(const std::string& description, int num_ranks);

  SharedRegion(SharedRegion&& other) noexcept;
  SharedRegion& operator=(SharedRegion&&) = delete;
  ~SharedRegion();

  // For open(), while the owner keeps it open.
  std::string description() const;

  // All have mapped it: the way in is closed.
  void close_way_in();

  Region* get() const { return region_.get(); }
  pid_t owner() const { return owner_; }
  // Whether the owner is a thread of this process.
  bool same_process() const;

 private:
  SharedRegion() = default;

  // Threads of one process share one mapping, which the last of them undoes.
  std::shared_ptr<Region> region_;
  int fd_ = -1;
  pid_t owner_ = -1;
  std::string process_; // see own_process()
};

// Tells processes apart, also those of other hosts and namespaces.
const std::string& own_process();

} // namespace argosy::comm::memory
