#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

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

// All that a decision depends on: the mesh, the op, and of its arguments the
// shapes, types and placements of tensors, and integers; as words.
class CallKey {
 public:
  void add(std::uint64_t word) { *extend(1) = word; }
  // Room for more words, which the caller writes.
  std::uint64_t* extend(std::size_t count) {
    const std::size_t size = words_.size();
    words_.resize_for_overwrite(size + count);
    return words_.data() + size;
  }

  // A sum of independent terms: a chain, in which each word waits for the one
  // before it, takes several times as long.
  std::uint64_t hash() const {
    std::uint64_t sum = 0;
    std::uint64_t salt = 0;
    for (const std::uint64_t word : words_) {
      salt += 0x9e3779b97f4a7c15u;
      std::uint64_t term = word + salt;
      term = (term ^ term >> 32) * 0xd6e8feb86659fd93u;
      sum += term ^ term >> 29;
    }
    return sum;
  }
  bool operator==(const CallKey& other) const { return words_ == other.words_; }

 private:
  c10::SmallVector<std::uint64_t, 48> words_;
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

struct KnownCall {
  CallKey key;
  Decision decision;
};

// Decisions by key. Thread-safe.
class DecisionCache {
 public:
  DecisionCache();

  // A number that no other cache of the process has or had, for keys of what
  // outlives it.
  std::uint64_t number() const { return number_; }

  // Null when there is none. `hash` is that of the key.
  std::shared_ptr<const KnownCall> find(
      const CallKey& key, std::uint64_t hash) const;
  void insert(std::shared_ptr<const KnownCall> call);
  std::size_t size() const;

 private:
  const std::uint64_t number_;
  mutable std::mutex mutex_;
  // By hash; guarded by mutex_.
  std::unordered_multimap<std::uint64_t, std::shared_ptr<const KnownCall>>
      calls_;
};

} // namespace argosy::dtensor
