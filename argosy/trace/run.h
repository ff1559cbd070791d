#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "argosy/trace/program.h"

namespace argosy::trace {

// One run of a program, or of some of its nodes: the values that are there.
// `program` must outlive it.
class Run {
 public:
  explicit Run(const Program& program)
      : program_(program), values_(program.graph.values.size()) {}

  void set(int value, at::Tensor tensor);
  // Undefined when it is not there yet.
  const at::Tensor& get(int value) const;
  void release(int value);

  // Runs a node under the modes that it was recorded under. The values that it
  // uses must be there.
  void run(int node);

 private:
  void carry_out(const Call& call);
  c10::IValue value_of(const Argument& argument) const;
  template <typename Element>
  c10::IValue list_of(const Argument& argument) const;

  const Program& program_;
  std::vector<at::Tensor> values_;
};

} // namespace argosy::trace
