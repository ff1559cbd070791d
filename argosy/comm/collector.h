#pragma once

#include <memory>
#include <vector>

#include "argosy/comm/op.h"

namespace argosy {
class Group;
class Work;
} // namespace argosy

namespace argosy::comm {

// Operations on their way to be carried out as one, and those who wait for
// each.
struct Batch {
  std::vector<Op> ops;
  std::vector<std::shared_ptr<Work>> works;
};

// The neighbours that can be fused, together, in order.
std::vector<Batch> fuse(
    const std::vector<Op>& ops,
    const std::vector<std::shared_ptr<Work>>& works);

// While it lives, keeps what this thread issues to a group.
class Collector {
 public:
  explicit Collector(const Group& group);
  ~Collector();
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  // That of this thread for the group, or null.
  static Collector* of(const Group& group);

  std::shared_ptr<Work> add(Op op);
  std::vector<Batch> batches() const { return fuse(ops_, works_); }

 private:
  const Group& group_;
  Collector* const outer_;
  std::vector<Op> ops_;
  std::vector<std::shared_ptr<Work>> works_;
};

} // namespace argosy::comm
