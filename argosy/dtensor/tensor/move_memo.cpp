#include "argosy/dtensor/tensor/move_memo.h"

#include "argosy/common/thread_context.h"

namespace argosy::dtensor {

namespace {

struct CurrentMemo {
  MoveMemo* pointer = nullptr;
};

MoveMemo*& innermost_memo() {
  return of_thread<CurrentMemo>().pointer;
}

} // namespace

MoveMemo::MoveMemo() : outer_(innermost_memo()) {
  innermost_memo() = this;
}

MoveMemo::~MoveMemo() {
  innermost_memo() = outer_;
}

MoveMemo* MoveMemo::current() {
  return innermost_memo();
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
