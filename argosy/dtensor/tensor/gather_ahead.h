#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "argosy/comm/ops.h"
#include "argosy/dtensor/tensor/tensor.h"

namespace argosy::dtensor {

// Gathers parameters that are sharded over an axis to save memory (stage 3), in
// buckets and before ops need them.
//
// An op that needs such a parameter whole asks find(). The first use of a
// bucket waits for the gathering of all its parameters, which is one call, and
// starts that of the bucket that came next the last time; buckets that are
// neither of the two are released. What comes next is learned from the order of
// use, which is the same on all ranks of the mesh, as they run the same
// program.
//
// Gathered values count as long as nobody writes to the shards. Keeps the
// shards alive, not the parameters. Thread-safe.
class GatherAhead {
 public:
  // `buckets` are lists of DTensors on one mesh, each Shard on `axis`. Those
  // that one call cannot gather (parts of unequal size) are left out.
  GatherAhead(const std::vector<Tensors>& buckets, int axis);
  ~GatherAhead();
  GatherAhead(const GatherAhead&) = delete;
  GatherAhead& operator=(const GatherAhead&) = delete;

  // The part of this rank when an input, a parameter or its transpose, is moved
  // to placements that replicate on the axis. Undefined when that is not what
  // the ranks gather ahead. All ranks call it alike; may block.
  at::Tensor find(const Parts& input, const Placements& to);

  // Forgets what was gathered: call it when the shards have changed.
  void release();

 private:
  struct Item {
    at::Tensor shard;
    Placements from;
    Placements to;
    int dim;                   // that the axis cuts
    std::int64_t version = -1; // of the shard, when it was gathered
    at::Tensor parts = {};     // of all ranks, one after the other
    at::Tensor whole = {};     // made of them when first asked for
  };
  struct Bucket {
    std::vector<Item> items;
    std::vector<WorkPtr> works; // not empty: being gathered
    bool is_gathered = false;   // or being so
    bool is_used = false;       // since then
  };
  using Place = std::pair<std::size_t, std::size_t>; // bucket, item

  void add(Bucket& bucket, const at::Tensor& parameter);
  std::optional<Place> place_of(const Parts& input, const Placements& to) const;
  void enter(int bucket);
  void start(int bucket);
  void wait(Bucket& bucket);
  void drop(Bucket& bucket);
  void drop_all_but(int one, int other);
  static bool is_stale(const Bucket& bucket);
  at::Tensor whole_of(Item& item) const;

  const int axis_;
  GroupPtr group_; // of the axis
  std::vector<Bucket> buckets_;
  std::map<const void*, Place> places_; // by the storage of the shard

  std::mutex mutex_;
  // All below is guarded by mutex_, as are the buckets.
  int before_ = -1;  // the bucket before the current one
  int current_ = -1; // in use; -1: none since release()
  // Which bucket followed when one came after another; kNone: none did.
  std::map<std::pair<int, int>, int> next_;
};

} // namespace argosy::dtensor
