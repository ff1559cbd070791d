#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <vector>

#include "argosy/comm/ops.h"
#include "argosy/sequence_parallel/sequence_split.h"

namespace argosy::sequence_parallel {

struct KeysAndValues {
  at::Tensor keys;
  at::Tensor values;
};

using Works = std::vector<WorkPtr>;

// Waits for all, and forgets them.
void wait_for(Works& works);

// The ranks in a circle. Ranks are those of the group; messages from one rank
// to another arrive in the order in which they are sent.
class Ring {
 public:
  // One rank needs no group.
  Ring(GroupPtr group, SequenceSplit split, bool causal);

  const RingPlan& plan() const { return plan_; }
  const SequenceSplit& split() const { return split_; }
  int rank() const { return rank_; }
  int nranks() const { return split_.nranks(); }
  int next() const { return (rank() + 1) % nranks(); }
  int previous() const { return (rank() + nranks() - 1) % nranks(); }

  // What this rank does in a step.
  const std::vector<AttentionBlock>& blocks(int step) const {
    return plan_.blocks[rank()][step];
  }

  void send(const KeysAndValues& block, int to, Works& works) const;
  void receive(const KeysAndValues& block, int from, Works& works) const;

 private:
  const GroupPtr group_;
  const int rank_;
  const SequenceSplit split_;
  const RingPlan plan_;
};

// Places for blocks of keys and values that come and go: as long as the longest
// of the split, made when first used.
class Places {
 public:
  // Like these, but for length and type.
  Places(const Ring& ring, const KeysAndValues& like, at::ScalarType dtype);

  KeysAndValues at(std::size_t place, std::int64_t length);

 private:
  at::Tensor part_of(
      at::Tensor& flat, const at::Tensor& like, std::int64_t length);

  const KeysAndValues like_;
  const at::ScalarType dtype_;
  std::int64_t longest_ = 0;
  std::array<KeysAndValues, 3> flats_;
};

// The keys and values that a rank has in each step. The next ones come while it
// works with these.
class KeyTravel {
 public:
  KeyTravel(const Ring& ring, KeysAndValues own);

  // What is there in this step; nothing where it is not needed.
  const KeysAndValues& here() const { return here_; }

  void begin_next(int step);
  void end_next();

 private:
  const Ring& ring_;
  KeysAndValues here_;
  KeysAndValues coming_;
  Places places_;
  Works under_way_;
};

// The gradients of keys and values follow these around, each rank adding its
// own: they begin at the first rank that the keys come to, and go home from the
// last one. So they make as many hops as the keys.
class GradientTravel {
 public:
  GradientTravel(
      const Ring& ring, const KeysAndValues& own, at::ScalarType dtype);

  // To be called before the keys of the next step are asked for.
  void begin(int step);
  // What this rank's part of the step is to be added to.
  const KeysAndValues& place() const { return place_; }
  void end(int step);

  // This rank's gradients, when all have added theirs.
  KeysAndValues finish();

 private:
  static constexpr std::size_t kAdding = 2; // beside those that travel

  bool is_sent_home(int step) const;
  void expect_home(KeysAndValues home);

  const Ring& ring_;
  Places places_;
  const KeysAndValues own_;
  KeysAndValues home_; // what comes back
  KeysAndValues place_;
  KeysAndValues travelling_;
  Works incoming_;
  Works coming_home_;
  std::array<Works, 2> outgoing_; // by the place that they are sent from
};

} // namespace argosy::sequence_parallel
