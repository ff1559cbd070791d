#include <utility>

#include "argosy/checkpoint/import/sources.h"
#include "argosy/checkpoint/import/state_tree.h"
#include "argosy/checkpoint/import/torch_file.h"

namespace argosy::checkpoint {

namespace {

bool is_size_key(const std::string& key) {
  constexpr std::string_view kSize = "/size";
  return key.size() >= kSize.size() &&
      key.compare(key.size() - kSize.size(), kSize.size(), kSize) == 0;
}

// torch::save names parameters of optimizers by their addresses, in the groups
// in order. Returns their numbers.
std::unordered_map<std::string, std::string> numbers_of_addresses(
    const nlohmann::json& groups) {
  std::unordered_map<std::string, std::string> numbers;
  for (std::size_t g = 0; groups.contains("param_groups/" + std::to_string(g));
       ++g) {
    const auto& group = groups["param_groups/" + std::to_string(g)];
    for (std::size_t i = 0; group.contains("params/" + std::to_string(i));
         ++i) {
      const auto& address = group["params/" + std::to_string(i)];
      if (address.is_string()) {
        numbers.emplace(
            address.get<std::string>(), std::to_string(numbers.size()));
      }
    }
  }
  return numbers;
}

// Turns torch::save's optimizer into what torch.save writes of one.
void renumber(StateTree& tree) {
  const auto numbers = numbers_of_addresses(
      tree.values.value("param_groups", nlohmann::json::object()));
  std::vector<TreeTensor> kept;
  for (TreeTensor& tensor : tree.tensors) {
    if (is_size_key(tensor.path.back())) {
      continue;
    }
    if (tensor.path.size() > 2) {
      const auto number = numbers.find(tensor.path[1]);
      if (number != numbers.end()) {
        tensor.path[1] = number->second;
      }
    }
    kept.push_back(std::move(tensor));
  }
  tree.tensors = std::move(kept);
}

// Puts everything below a component, if the root is one itself.
void add_component(const PickleValue& root, StateTree& tree) {
  const bool optimizer =
      root.find("state") != nullptr && root.find("param_groups") != nullptr;
  if (!optimizer && !root.is(PickleKind::kObject)) {
    return;
  }
  if (optimizer && root.is(PickleKind::kObject)) {
    renumber(tree);
  }
  const std::string component = optimizer ? "optimizer" : "model";
  for (TreeTensor& tensor : tree.tensors) {
    tensor.path.insert(tensor.path.begin(), component);
  }
  if (!tree.values.empty()) {
    tree.values = nlohmann::json{{component, tree.values}};
  }
}

} // namespace

TensorSet open_torch(const fs::Location& location) {
  TorchFile file(open_source(location));
  StateTree tree = state_tree(file.root());
  add_component(file.root(), tree);
  std::vector<TreeName> paths;
  for (const TreeTensor& tensor : tree.tensors) {
    paths.push_back({tensor.path, tensor.tensor.shape, tensor.tensor.dtype});
  }
  const auto names = checkpoint_names(paths, count_optimized(tree.values));
  TensorSet set{.format = Format::Torch, .url = url_of(location)};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const PickleTensor& tensor = tree.tensors[i].tensor;
    SourceTensor source{
        .info = {names[i], tensor.dtype, tensor.shape},
        .pieces = {},
        .root = std::nullopt};
    source.pieces.push_back(piece_of_view(
        tensor, file.storage(tensor), Shape(tensor.shape.size(), 0)));
    set.tensors.push_back(std::move(source));
  }
  set.step = step_of_values(tree.values);
  set.values = std::move(tree.values);
  sort_tensors(set);
  return set;
}

} // namespace argosy::checkpoint
