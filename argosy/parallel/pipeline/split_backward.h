#pragma once
#include "argosy/comm/ops.h"
namespace argosy::pipeline {
class SplitBackward {
 public:
  Tensors input(
      const Tensors& outputs, const Tensors& gradients, const Tensors& inputs);
  void weight() {}
};
} // namespace argosy::pipeline
