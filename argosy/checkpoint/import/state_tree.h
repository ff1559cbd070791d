#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "argosy/checkpoint/import/pickle_value.h"

// Tensors of nested dicts and lists, and their names in checkpoints.
namespace argosy::checkpoint {

using TreePath = std::vector<std::string>; // keys from the root on

struct TreeTensor {
  TreePath path;
  PickleTensor tensor;
};

struct StateTree {
  std::vector<TreeTensor> tensors;                  // in the order of the file
  nlohmann::json values = nlohmann::json::object(); // what is no tensor
};

// Collects the tensors below a value. Throws CheckpointError for trees that are
// too deep, too large, or contain themselves.
StateTree state_tree(const PickleValue& root);

// Sets a value at a path, and makes what is missing on the way.
void set_value(
    nlohmann::json& values, const TreePath& path, nlohmann::json value);

struct TreeName {
  TreePath path;
  Shape shape;
  DType dtype = DType::kF32;
};

// What tensors at these paths are called in a checkpoint, in the same order:
// "model/fc.weight", "optimizer/fc.weight.exp_avg", "<component>/<name>".
//
// A tree whose tensors all stand at the root is a model's state_dict. Otherwise
// the first key is the component, where the usual keys for a model
// ("state_dict", "model_state_dict", ...), optimizer and average are known.
// States of optimizers that torch numbers get the names of parameters, if their
// number and shapes are those of the model's tensors in the same tree, without
// what batch norms track; else they are called "optimizer/state.<i>.<kind>".
// `num_optimized` is the number of parameters in the optimizer's groups.
std::vector<std::string> checkpoint_names(
    const std::vector<TreeName>& tensors, std::size_t num_optimized);

// The number of parameters in the groups of the optimizer's values, 0 if there
// are none.
std::size_t count_optimized(const nlohmann::json& values);

// The step that training values have under one of its usual names; 0 if none.
std::int64_t step_of_values(const nlohmann::json& values);

} // namespace argosy::checkpoint
