#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "argosy/dtensor/layout/placement.h"

namespace argosy::dtensor {

// While it lives, the ops of the calling thread that want a tensor in the same
// other place share one move: a gradient is gathered once for the gradients of
// the input and of the weight.
class MoveMemo {
 public:
  MoveMemo();
  ~MoveMemo();
  MoveMemo(const MoveMemo&) = delete;
  MoveMemo& operator=(const MoveMemo&) = delete;

  // That of the calling thread, or null.
  static MoveMemo* current();

  // What a tensor was moved to; undefined when it was not. `tensor` must not be
  // written to meanwhile.
  at::Tensor find(const at::Tensor& tensor, const Placements& to) const;
  void insert(
      const at::Tensor& tensor, const Placements& to, const at::Tensor& moved);

 private:
  struct Entry {
    at::Tensor tensor; // kept, so that its address is its own
    Placements to;
    at::Tensor moved;
  };

  MoveMemo* const outer_;
  std::vector<Entry> entries_;
};

} // namespace argosy::dtensor
