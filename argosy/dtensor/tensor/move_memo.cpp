#include "argosy/dtensor/tensor/move_memo.h"

namespace argosy::dtensor {

namespace {

thread_local MoveMemo* innermost = nullptr;

} // namespace

MoveMemo::MoveMemo() : outer_(innermost) {
  innermost = this;
}

MoveMemo::~MoveMemo() {
  innermost = outer_;
}

MoveMemo* MoveMemo::current() {
  return innermost;
}

at::Tensor MoveMemo::find(
    const at::Tensor& tensor, const Placements& to) const {
  for (const Entry& entry : entries_) {
    if (entry.tensor.is_same(tensor) && entry.to == to) {
      return entry.moved;
    }
  }
  return {};
}

void MoveMemo::insert(
    const at::Tensor& tensor, const Placements& to, const at::Tensor& moved) {
  entries_.push_back({tensor, to, moved});
}

} // namespace argosy::dtensor
