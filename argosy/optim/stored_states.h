#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "argosy/optim/state_store.h"

// The states of a FusedOptimizer in a StateStore. Not installed.
namespace argosy::optim {

// What one parameter has: some tensors of its size.
struct StateSize {
  std::int64_t numel = 0;
  std::int64_t element_bytes = 0;
  std::int64_t num_tensors = 0;

  bool operator==(const StateSize&) const = default;
};

// Where it lies.
struct StatePlace {
  std::size_t bucket = 0;
  std::int64_t begin = 0;  // byte of the first tensor
  std::int64_t stride = 0; // bytes from one tensor to the next

  bool operator==(const StatePlace&) const = default;
};

struct StateLayout {
  std::vector<std::vector<StatePlace>> places; // by group and index
  std::vector<std::int64_t> bucket_bytes;

  bool operator==(const StateLayout&) const = default;
};

// In order; a bucket belongs to one group. Pure.
StateLayout lay_out_states(
    const std::vector<std::vector<StateSize>>& sizes, std::int64_t cap);

class StoredStates {
 public:
  explicit StoredStates(std::shared_ptr<StateStore> store)
      : store_(std::move(store)) {}
  ~StoredStates();
  StoredStates(const StoredStates&) = delete;
  StoredStates& operator=(const StoredStates&) = delete;

  bool fits(const std::vector<std::vector<StateSize>>& sizes) const {
    return sizes == sizes_;
  }
  // What was stored is gone.
  void lay_out(std::vector<std::vector<StateSize>> sizes);

  std::size_t bucket_of(std::size_t group, std::size_t index) const {
    return layout_.places[group][index].bucket;
  }

  // Whether there is anything of a parameter in the store.
  bool has(std::size_t group, std::size_t index) const;
  void set_has(std::size_t group, std::size_t index);
  void forget_all();

  // Takes a bucket out, after the one that is has been put back.
  void open(std::size_t bucket);
  void close(bool written);

  // A tensor of the state, of the shape and order of `like`, in the open
  // bucket.
  at::Tensor view(
      std::size_t group,
      std::size_t index,
      std::int64_t number,
      const at::Tensor& like,
      c10::ScalarType type) const;

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  const std::shared_ptr<StateStore> store_;
  std::vector<std::vector<StateSize>> sizes_;
  StateLayout layout_;
  std::vector<std::vector<bool>> has_;
  std::size_t open_ = kNone;
  at::Tensor memory_; // of the open bucket
};

} // namespace argosy::optim
