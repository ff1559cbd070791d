#pragma once

#include <memory>

#include "argosy/comm/ops.h"

namespace argosy::fleet {

// Ranks of a tensor parallel group compute on the same inputs together. When a
// loader gives them different ones, replicated parameters diverge without an
// error. So they compare hashes of the inputs of the first steps.
class InputCheck {
 public:
  InputCheck(GroupPtr group, int times)
      : group_(std::move(group)), left_(times) {}

  // Collective in the first steps, later nothing. Throws InvalidArgument on all
  // ranks of the group when the tensors differ; `what` names them. DTensors and
  // undefined tensors are left out.
  void compare(const Tensors& tensors, const char* what);

 private:
  const GroupPtr group_;
  int left_; // steps to compare
};

// Null when the group has one rank or dtensor_check_values(0) was called.
std::shared_ptr<InputCheck> make_input_check(const GroupPtr& group);

} // namespace argosy::fleet
