#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <utility>
#include <vector>

// Parameters and buffers that have no values: those of other stages. Not
// installed.
namespace argosy::pipeline {

// Releases a tensor's memory: it becomes a meta tensor, also for those who hold
// it.
void drop_values(const at::Tensor& tensor);

// Gives a tensor that was made under DeferredInit the values that it would have
// got; others have theirs. The calling thread must be a rank.
void make_values(const at::Tensor& tensor);

// Tensors without values are zeros while it lives, that take no memory unless
// something is written to them.
class StandIns {
 public:
  StandIns() = default;
  ~StandIns();
  StandIns(const StandIns&) = delete;
  StandIns& operator=(const StandIns&) = delete;

  void add(const at::Tensor& tensor);

 private:
  std::vector<std::pair<at::Tensor, c10::intrusive_ptr<c10::TensorImpl>>> away_;
};

} // namespace argosy::pipeline
