#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "argosy/trace/graph.h"
#include "argosy/trace/tensor_meta.h"

namespace argosy::torch_hooks {
struct OpInfo;
}

namespace argosy::trace {

struct Modes;

// An argument of an op: as it was, or values in the place of tensors.
struct Argument {
  enum class Kind : std::uint8_t { kPlain, kTensor, kList, kOptionalList };

  Kind kind = Kind::kPlain;
  c10::IValue plain;
  std::vector<int> values; // -1: no tensor
};

// How to run a node again.
struct Call {
  c10::OperatorHandle op;
  std::vector<Argument> arguments;
  std::vector<int> results;           // values; -1: no tensor
  std::shared_ptr<const Modes> modes; // null: those of the whole recording
};

// Recorded ops, to be run again, all or some of them. A run does what the
// recorded one did: the same ops with the same numbers and sizes, and with new
// random numbers. So it serves inputs of the same shapes and types.
struct Program {
  Graph graph;
  Metas metas;                                    // by value
  std::vector<std::vector<std::int64_t>> strides; // by value
  std::vector<Call> calls;                        // by node
  std::unordered_map<int, at::Tensor> held;       // states and constants
  std::vector<double> seconds; // by node: how long it took when recorded

  // Returns the number of the new value.
  int add_value(
      Value value, TensorMeta meta, std::vector<std::int64_t> its_strides);
  void add_node(Node node, Call call, double its_seconds = 0);

  Metas metas_of(const std::vector<int>& values) const;
};

// Records the arguments of an op, from the first: tensors by the numbers that
// `number_of` gives them.
void add_arguments(
    const torch_hooks::OpInfo& info,
    const c10::IValue* first,
    c10::function_ref<int(const at::Tensor&)> number_of,
    Call& call,
    Node& node);

// Whether an op changes its argument of that number.
bool is_written(const torch_hooks::OpInfo& info, std::size_t argument);

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
