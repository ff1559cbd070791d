#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "argosy/optim/state_store.h"

// The state of a FusedOptimizer in a StateStore. Not installed.
namespace argosy::optim {

// The state of one parameter: `num_tensors` tensors of `numel` elements.
struct StateSize {
  std::int64_t numel = 0;
  std::int64_t element_bytes = 0;
  std::int64_t num_tensors = 0;

  bool operator==(const StateSize&) const = default;
};

// Where the state of one parameter lies.
struct StatePlace {
  std::size_t buffer = 0;
  std::int64_t begin = 0;  // byte of the first tensor
  std::int64_t stride = 0; // bytes from one tensor to the next

  bool operator==(const StatePlace&) const = default;
};

struct StateLayout {
  std::vector<std::vector<StatePlace>> places; // by group and index
  std::vector<std::int64_t> buffer_bytes;

  bool operator==(const StateLayout&) const = default;
};

// Lays out states in buffers of up to `cap` bytes, in order. A buffer belongs
// to one group. Pure.
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
  // Discards what was stored.
  void lay_out(std::vector<std::vector<StateSize>> sizes);

  std::size_t buffer_of(std::size_t group, std::size_t index) const {
    return layout_.places[group][index].buffer;
  }

  // Whether the store has the state of a parameter.
  bool has(std::size_t group, std::size_t index) const;
  void set_has(std::size_t group, std::size_t index);
  void forget_all();

  // Fetches a buffer, after putting back the open one.
  void open(std::size_t buffer);
  void close(bool written);

  // Tensor `number` of a parameter's state, as a view into the open buffer with
  // the sizes and strides of `like`.
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
  at::Tensor memory_; // of the open buffer
};

} // namespace argosy::optim
