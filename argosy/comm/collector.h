#pragma once

#include <memory>
#include <vector>

#include "argosy/comm/op.h"

namespace argosy {
class Group;
class Work;
} // namespace argosy

namespace argosy::comm {

// Operations that run as one, and the Work of each.
struct Batch {
  std::vector<Op> ops;
  std::vector<std::shared_ptr<Work>> works;
};

// Groups consecutive operations that can be fused, in order.
std::vector<Batch> fuse(
    const std::vector<Op>& ops,
    const std::vector<std::shared_ptr<Work>>& works);

// While it lives, collects what this thread issues to a group instead of
// running it.
class Collector {
 public:
  explicit Collector(const Group& group);
  ~Collector();
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  // This thread's collector for the group, or null.
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
