#pragma once

#include <functional>
#include <string>
#include <vector>

#include "argosy/checkpoint/hash.h"
#include "argosy/checkpoint/state_part.h"
#include "argosy/checkpoint/write_plan.h"
#include "argosy/comm/ops.h"

// What ranks tell one another about a checkpoint. Not installed.
namespace argosy::checkpoint {

// The ranks that save or load together. A null group: this rank alone.
class Ranks {
 public:
  explicit Ranks(GroupPtr group = nullptr) : group_(std::move(group)) {}

  int rank() const;
  int size() const;
  bool is_first() const { return rank() == 0; }
  const GroupPtr& group() const { return group_; }
  // A number for each host, by rank. Collective.
  std::vector<int> hosts() const;

  // Runs `make` on each rank and returns the texts of all. If it throws on some
  // rank, all ranks throw CheckpointError with the errors of all, tagged with
  // `op`. Collective.
  std::vector<std::string> all_gather(
      const char* op, const std::function<std::string()>& make) const;
  // The text of the first rank, likewise. Collective.
  std::string from_first(
      const char* op, const std::function<std::string()>& make) const;
  // Only the errors. Collective.
  void agree(const char* op, const std::function<void()>& action) const;

 private:
  GroupPtr group_;
};

// What one rank holds, without values.
struct Description {
  struct Slot {
    TensorInfo info;
    std::vector<Box> boxes;
    bool from_first = false;
    bool frozen = false;
  };
  std::vector<Slot> slots;
};

Description describe(const Contents& contents);
std::string encode(const Description& description);
Description decode_description(const std::string& bytes);

// What all ranks hold, in the words of plan_writes().
struct Inventory {
  std::vector<TensorInfo> tensors; // by name, ascending
  std::vector<bool> frozen;        // by tensor
  std::vector<std::vector<Holding>> holdings;
  // For each rank and holding, the index of the slot and of its piece.
  struct Source {
    std::size_t slot = 0;
    std::size_t piece = 0;
  };
  std::vector<std::vector<Source>> sources;
};

// Throws CheckpointError if ranks have one tensor with two shapes or types.
Inventory take_inventory(const std::vector<Description>& descriptions);

} // namespace argosy::checkpoint
