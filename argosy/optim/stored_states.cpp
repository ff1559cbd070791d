#include "argosy/optim/stored_states.h"

#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/optim/flat_layout.h"
#include "argosy/optim/flat_parameters.h"

namespace argosy::optim {

namespace {

std::int64_t to_cache_lines(std::int64_t bytes) {
  constexpr auto kLine = static_cast<std::int64_t>(kCacheLine);
  return (bytes + kLine - 1) / kLine * kLine;
}

} // namespace

// Fills buffers up to `cap` in the order of the parameters, in which a step
// uses them. A group begins a new buffer: a step updates one group at a time. A
// state larger than `cap` gets a buffer of its own.
StateLayout lay_out_states(
    const std::vector<std::vector<StateSize>>& sizes, std::int64_t cap) {
  StateLayout layout;
  auto& buffers = layout.buffer_bytes;
  for (const auto& group : sizes) {
    auto& places = layout.places.emplace_back();
    bool is_first = true;
    for (const StateSize& size : group) {
      const std::int64_t stride =
          to_cache_lines(size.numel * size.element_bytes);
      const std::int64_t bytes = size.num_tensors * stride;
      if (is_first || (buffers.back() > 0 && buffers.back() + bytes > cap)) {
        buffers.push_back(0);
        is_first = false;
      }
      places.push_back({buffers.size() - 1, buffers.back(), stride});
      buffers.back() += bytes;
    }
  }
  return layout;
}

// Puts back a buffer that is still out, as after an error in a step, without
// writing it.
StoredStates::~StoredStates() {
  try {
    close(false);
  } catch (const Error& error) {
    log::warn(error.what());
  }
}

void StoredStates::lay_out(std::vector<std::vector<StateSize>> sizes) {
  close(false);
  layout_ = lay_out_states(sizes, store_->buffer_bytes());
  store_->make_buffers(layout_.buffer_bytes);
  sizes_ = std::move(sizes);
  forget_all();
}

bool StoredStates::has(std::size_t group, std::size_t index) const {
  return group < has_.size() && index < has_[group].size() &&
      has_[group][index];
}

void StoredStates::set_has(std::size_t group, std::size_t index) {
  has_[group][index] = true;
}

void StoredStates::forget_all() {
  has_.clear();
  for (const auto& group : sizes_) {
    has_.emplace_back(group.size(), false);
  }
}

void StoredStates::open(std::size_t buffer) {
  if (open_ == buffer) {
    return;
  }
  close(false);
  if (layout_.buffer_bytes[buffer] > 0) {
    memory_ = store_->fetch(buffer);
  }
  open_ = buffer;
}

void StoredStates::close(bool written) {
  if (open_ == kNone) {
    return;
  }
  // First, so that an error of the store does not make the destructor put the
  // buffer back a second time.
  const std::size_t buffer = std::exchange(open_, kNone);
  // Before put_back(): the store may reuse the memory at once.
  memory_ = at::Tensor();
  if (layout_.buffer_bytes[buffer] > 0) {
    store_->put_back(buffer, written);
  }
}

at::Tensor StoredStates::view(
    std::size_t group,
    std::size_t index,
    std::int64_t number,
    const at::Tensor& like,
    c10::ScalarType type) const {
  const StatePlace& place = layout_.places[group][index];
  const StateSize& size = sizes_[group][index];
  ARGOSY_ASSERT(
      open_ == place.buffer && number < size.num_tensors,
      "state {} of parameter {}",
      number,
      index);
  return alias(
      // Tensors of one state lie `stride` bytes apart, each at a cache line.
      memory_.view(type),
      (place.begin + number * place.stride) / size.element_bytes,
      like);
}

} // namespace argosy::optim
