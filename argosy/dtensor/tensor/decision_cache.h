#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "argosy/dtensor/layout/layout.h"
#include "argosy/dtensor/layout/placement.h"

namespace argosy::dtensor {

class LocalCall;

// All that a decision depends on: the op, and of its arguments the shapes,
// types and placements of tensors, and integers; as words.
class CallKey {
 public:
  void add(std::uint64_t word) {
    words_.push_back(word);
    hash_ = (hash_ ^ word) * 0x9e3779b97f4a7c15u;
    hash_ ^= hash_ >> 29;
  }

  std::uint64_t hash() const { return hash_; }
  bool operator==(const CallKey& other) const { return words_ == other.words_; }

 private:
  c10::SmallVector<std::uint64_t, 48> words_;
  std::uint64_t hash_ = 0;
};

// A returned tensor, known before the op has run.
struct Expected {
  Shape shape;
  Shape local = {}; // of this rank's part
  at::ScalarType dtype = at::ScalarType::Undefined;
  // Where a view has its elements in its base; empty when not known.
  Shape strides = {};
  std::int64_t offset = 0;
};

// How one op runs on the parts of the ranks.
struct Decision {
  struct Input {
    Placements placements;
    bool moves = false; // is resharded before
  };
  struct Output {
    Placements placements;
    // One for each tensor that is returned here; none where nothing is known:
    // then the shape is that of the local result, as nothing is sharded.
    std::vector<Expected> tensors;
  };

  std::vector<Input> inputs;   // of all tensors, in the order of arguments
  std::vector<Output> outputs; // of all values that the op returns
  // Arguments that are others on this rank: their place and value.
  std::vector<std::pair<std::size_t, c10::IValue>> arguments;
  void (*run)(LocalCall& call) = nullptr; // instead of the op itself
  // How often the ranks have compared the plain tensors among the inputs, which
  // count as replicated; null when there are none.
  std::shared_ptr<std::atomic<int>> compared;
};

// Decisions by key. Thread-safe.
class DecisionCache {
 public:
  std::shared_ptr<const Decision> find(const CallKey& key) const;
  std::shared_ptr<const Decision> insert(CallKey key, Decision decision);
  std::size_t size() const;

 private:
  struct Entry {
    CallKey key;
    std::shared_ptr<const Decision> decision;
  };

  mutable std::mutex mutex_;
  // By hash; guarded by mutex_, as what follows.
  std::unordered_multimap<std::uint64_t, Entry> entries_;
  // The entry found last for each value of the hash's last bits, or null: a
  // training step asks for the same few all the time.
  mutable std::array<const Entry*, 256> recent_{};
};

} // namespace argosy::dtensor
