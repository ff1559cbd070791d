#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "argosy/pipeline/cut/graph.h"
#include "argosy/pipeline/tensor_meta.h"

namespace torch::nn {
class Module;
}

namespace argosy::pipeline {

using Tensors = std::vector<at::Tensor>;
using Forward = std::function<Tensors(const Tensors&)>;

struct Modes; // of the thread: gradients, autocast, generator

// An argument: as it is, or with values in the place of tensors (-1: none).
struct Argument {
  enum class Kind : std::uint8_t { kPlain, kTensor, kList, kOptionalList };

  Kind kind = Kind::kPlain;
  c10::IValue plain;
  std::vector<int> values;
};

// How to carry out a node again.
struct Call {
  c10::OperatorHandle op;
  std::vector<Argument> arguments;
  std::vector<int> results;           // values; -1: no tensor
  std::shared_ptr<const Modes> modes; // null: those of the forward
};

// A forward pass, written down op by op above autograd and autocast, to be run
// again, whole or in parts. Runs of it are as the first one: the same ops with
// the same numbers, other random numbers. Sizes and all that is no tensor are
// as they were, so it is good for inputs of the same shapes and types, in the
// same training mode.
struct Program {
  Graph graph;
  Metas metas;                                    // by value
  std::vector<std::vector<std::int64_t>> strides; // by value
  std::vector<Call> calls;                        // by node
  std::unordered_map<int, at::Tensor> held;       // states and constants
  std::vector<double> seconds; // by node: what it took in the recording

  Metas metas_of(const std::vector<int>& values) const;
};

// Runs `forward` once and writes down what it does, with gradients on. What it
// changes is set back: buffers, inputs, random numbers. States that have no
// values (on the meta device, as keep_only() leaves them, or made under
// DeferredInit) are zeros meanwhile, without taking memory.
//
// Throws InvalidArgument where the result would not be what `forward` does:
// it asks for a value (item()), for a shape that depends on values (nonzero()),
// communicates, or uses a torch::autograd::Function or a tensor that requires a
// gradient and is none of the module's.
Program record(
    torch::nn::Module& module, const Forward& forward, const Tensors& examples);

} // namespace argosy::pipeline
