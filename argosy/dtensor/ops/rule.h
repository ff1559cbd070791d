#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "argosy/dtensor/ops/choose.h"

namespace c10 {
class OperatorHandle;
}

namespace argosy::torch_hooks {
struct OpInfo;
}

namespace argosy::dtensor {

using torch_hooks::OpInfo;
struct Decision;
class MeshState;

// One call of an op, as rules see it: with the global shapes, but for what the
// mesh axes before the one in question have cut off. So a rule thinks of one
// axis only.
//
// Inputs are all tensors that are given, in the order of the arguments, those
// of lists one by one, without those that the op only writes (`out`). Arguments
// have the names of the schema; those of another overload are just not there.
class OpCall {
 public:
  OpCall(
      const OpInfo& info, const c10::IValue* arguments, const AxisView& view);

  const std::string& name() const; // "aten::sum.dim_IntList"
  std::int64_t axis_size() const { return view_.size; }

  std::size_t num_inputs() const { return view_.shapes.size(); }
  const Shape& shape(std::size_t input) const { return view_.shapes[input]; }
  // Of an argument that is a tensor: its sizes before any axis cuts it. A dim
  // of one element may be what is left of a longer one.
  Shape whole_shape(std::string_view argument) const;
  // Whether all ranks get equally much of a dim that is cut.
  bool is_even(std::size_t input, std::size_t dim) const;
  // Whether they have unequally much of it already.
  bool is_cut_unevenly(std::size_t input, std::size_t dim) const;
  // What the axis does with the input before the op.
  Placement current(std::size_t input) const { return view_.current[input]; }
  // The first input of the argument of that name, or -1.
  int input(std::string_view argument) const;
  // Those of a list, one by one; -1 for None.
  std::vector<int> inputs(std::string_view argument) const;
  // The whole tensors themselves, for types and, in views, strides. Of a list
  // those that are given.
  const at::Tensor& tensor(std::string_view argument) const;
  std::vector<at::Tensor> tensors(std::string_view argument) const;

  std::size_t num_outputs() const;
  bool knows_outputs() const { return !view_.outs.empty(); }
  // Empty when the shape of the output is not known.
  const Shape& out_shape(std::size_t output) const;

  // Arguments that are no tensors. `has` is false for None.
  bool has(std::string_view argument) const;
  std::int64_t integer(std::string_view argument, std::int64_t otherwise) const;
  bool flag(std::string_view argument, bool otherwise) const;
  // One integer counts as a list of one.
  Shape integers(std::string_view argument) const;

  // All inputs and outputs replicated; rules change what differs.
  Strategy strategy() const;
  // The same, but for the first input and all outputs.
  Strategy strategy(Placement first_input, Placement outputs) const;

 private:
  const c10::IValue* find(std::string_view argument) const;

  const OpInfo& info_;
  const c10::IValue* arguments_;
  const AxisView& view_;
};

// One op that runs on this rank's parts.
class LocalCall {
 public:
  LocalCall(
      const c10::OperatorHandle& op,
      torch::jit::Stack& stack,
      const c10::IValue* originals,
      const OpInfo& info,
      const Decision& decision,
      MeshState& mesh)
      : op_(op),
        stack_(stack),
        originals_(originals),
        info_(info),
        decision_(decision),
        mesh_(mesh) {}

  // The arguments, with local tensors; run() replaces them by the results.
  c10::IValue& argument(std::size_t index);
  c10::IValue& argument(std::string_view name);
  // Null when the overload does not have it.
  const c10::IValue* find(std::string_view name);
  // The same before they became local.
  const c10::IValue& original(std::string_view name) const;
  // Of an argument that is a tensor: where it is while the op runs.
  const Placements& placements(std::string_view name) const;
  const Decision& decision() const { return decision_; }
  MeshState& mesh() { return mesh_; }

  // Copies these tensors where they have gaps: callers see to it that the whole
  // has none, and kernels rely on it.
  void make_contiguous(std::initializer_list<std::string_view> names);

  // Runs the op itself on the arguments as they are.
  void run();
  // What it gave, after that.
  c10::IValue& result(std::size_t index = 0);
  // Ends the call with this result, or with these.
  void finish(c10::IValue result);
  void finish(torch::jit::Stack results);

 private:
  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  const c10::IValue* originals_;
  const OpInfo& info_;
  const Decision& decision_;
  MeshState& mesh_;
};

// How the ranks of a mesh share an op.
struct Rule {
  // The ways that one mesh axis may take. What is offered must be right
  // whatever the inputs hold; "all on all ranks" need not be named.
  std::vector<Strategy> (*strategies)(const OpCall& call) = nullptr;

  // The shapes of the outputs, where LibTorch has no meta kernel to tell them.
  std::vector<Shape> (*shapes)(const OpCall& call) = nullptr;

  // Arguments that are others on a rank than in the whole, such as sizes, from
  // the shapes of this rank's outputs: their names and values.
  std::vector<std::pair<std::string_view, c10::IValue>> (*localize)(
      const OpCall& call, const std::vector<Shape>& local_outs) = nullptr;

  // Runs on the local tensors, when that is not just the op itself.
  void (*run)(LocalCall& call) = nullptr;
};

} // namespace argosy::dtensor
