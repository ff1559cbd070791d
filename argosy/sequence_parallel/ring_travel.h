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

// Waits for all works and clears the list.
void wait_for(Works& works);

// The ranks of a group as a ring. Messages from one rank to another arrive in
// the order in which they are sent.
class Ring {
 public:
  // `group` may be null for one rank.
  Ring(GroupPtr group, SequenceSplit split, bool causal);

  const RingPlan& plan() const { return plan_; }
  const SequenceSplit& split() const { return split_; }
  int rank() const { return rank_; }
  int nranks() const { return split_.nranks(); }
  int next() const { return (rank() + 1) % nranks(); }
  int previous() const { return (rank() + nranks() - 1) % nranks(); }

  // The work of this rank in a step.
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

// Reusable buffers for keys and values of other ranks. Each is large enough for
// the longest part of the split, and is allocated on first use.
class Places {
 public:
  // Buffers with the shape of `like`, except for the length, and type `dtype`.
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

// The keys and values that this rank has in each step. Those of the next step
// arrive while it works with the current ones.
class KeyTravel {
 public:
  KeyTravel(const Ring& ring, KeysAndValues own);

  // The keys and values of this step; undefined if they are not needed.
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

// The gradients of keys and values travel behind the keys, and each rank adds
// its share. They start at the first rank that the keys come to, and the last
// one sends them to their owner, so they make as many hops as the keys.
class GradientTravel {
 public:
  GradientTravel(
      const Ring& ring, const KeysAndValues& own, at::ScalarType dtype);

  // Call it before receiving the keys of the next step starts.
  void begin(int step);
  // Add this rank's share of the step to it.
  const KeysAndValues& place() const { return place_; }
  void end(int step);

  // Waits until all ranks have added their share, and returns the gradients of
  // this rank's keys and values.
  KeysAndValues finish();

 private:
  static constexpr std::size_t kAdding = 2; // index of the third buffer

  bool is_sent_home(int step) const;
  void expect_home(KeysAndValues home);

  const Ring& ring_;
  Places places_;
  const KeysAndValues own_;
  KeysAndValues home_; // the gradients that come back
  KeysAndValues place_;
  KeysAndValues travelling_;
  Works incoming_;
  Works coming_home_;
  std::array<Works, 2> outgoing_; // by the place that they are sent from
};

} // namespace argosy::sequence_parallel
