#include "argosy/checkpoint/import/state_tree.h"

#include <unordered_map>
#include <utility>

#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

constexpr int kDeepestTree = 100;
constexpr int kMostTreeVisits = 20'000'000;
constexpr std::size_t kMostTensors = 1'000'000;

class TreeWalk {
 public:
  StateTree run(const PickleValue& root) {
    visit(root);
    return std::move(tree_);
  }

 private:
  void count(std::size_t depth) {
    if (depth > kDeepestTree || ++visits_ > kMostTreeVisits) {
      throw CheckpointError(
          "[checkpoint.import] values that are nested too deeply, or contain "
          "themselves");
    }
  }

  bool has_tensor(const PickleValue& value, std::size_t depth) {
    count(depth);
    if (value.is(PickleKind::kTensor)) {
      return true;
    }
    for (const PickleValue* item : value.items) {
      if (has_tensor(*item, depth + 1)) {
        return true;
      }
    }
    return value.state != nullptr && has_tensor(*value.state, depth + 1);
  }

  void visit(const PickleValue& value) {
    count(path_.size());
    if (value.is(PickleKind::kTensor)) {
      if (tree_.tensors.size() >= kMostTensors) {
        throw CheckpointError(
            str("[checkpoint.import] more than ", kMostTensors, " tensors"));
      }
      tree_.tensors.push_back({path_, *value.tensor});
      return;
    }
    const bool inner = path_.empty() || has_tensor(value, path_.size());
    const PickleValue* dict =
        value.is(PickleKind::kObject) ? value.state : &value;
    if (inner && dict != nullptr && dict->is(PickleKind::kDict)) {
      visit_dict(*dict);
    } else if (inner && !value.is(PickleKind::kDict) && !value.items.empty()) {
      visit_items(value);
    } else if (!path_.empty()) {
      set_value(tree_.values, path_, to_json(value));
    }
  }

  void visit_dict(const PickleValue& dict) {
    for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      visit_child(key_text(*dict.items[i]), *dict.items[i + 1]);
    }
  }

  void visit_items(const PickleValue& sequence) {
    for (std::size_t i = 0; i < sequence.items.size(); ++i) {
      visit_child(std::to_string(i), *sequence.items[i]);
    }
  }

  void visit_child(std::string key, const PickleValue& value) {
    path_.push_back(std::move(key));
    visit(value);
    path_.pop_back();
  }

  StateTree tree_;
  TreePath path_;
  int visits_ = 0;
};

std::string join_path_from(const TreePath& path, std::size_t from) {
  std::string text;
  for (std::size_t i = from; i < path.size(); ++i) {
    text += (i > from ? "." : "") + path[i];
  }
  return text;
}

// Components under other keys.
std::string component_of(const std::string& key) {
  static const std::unordered_map<std::string, std::string> known{
      {"state_dict", "model"},
      {"model_state_dict", "model"},
      {"module", "model"},
      {"net", "model"},
      {"optim", "optimizer"},
      {"optimizer_state_dict", "optimizer"},
      {"optimizer_states", "optimizer"},
      {"ema_state_dict", "ema"},
      {"model_ema", "ema"},
  };
  const auto found = known.find(key);
  return found == known.end() ? key : found->second;
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() &&
      text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool is_tracked_by_batch_norm(const std::string& name) {
  return ends_with(name, "running_mean") || ends_with(name, "running_var") ||
      ends_with(name, "num_batches_tracked");
}

bool is_optimizer_state(const TreePath& path, const std::string& component) {
  return component == "optimizer" && path.size() >= 4 && path[1] == "state";
}

std::size_t state_index(const std::string& key) {
  std::size_t index = 0;
  for (const char c : key) {
    if (c < '0' || c > '9' || index > 10'000'000) {
      return static_cast<std::size_t>(-1);
    }
    index = 10 * index + static_cast<std::size_t>(c - '0');
  }
  return index;
}

// The optimized parameters of the model, as names and shapes, if they can be
// told for sure.
class Numbering {
 public:
  Numbering(const std::vector<TreeName>& tensors, std::size_t num_optimized) {
    for (const TreeName& tensor : tensors) {
      const bool of_model =
          tensor.path.size() > 1 && component_of(tensor.path[0]) == "model";
      const std::string name = join_path_from(tensor.path, 1);
      if (of_model && !is_tracked_by_batch_norm(name)) {
        names_.push_back(name);
        shapes_.push_back(tensor.shape);
      }
    }
    valid_ = num_optimized > 0 && names_.size() == num_optimized;
    for (const TreeName& tensor : tensors) {
      valid_ = valid_ && fits(tensor);
    }
  }

  bool valid() const { return valid_; }
  const std::string& name(std::size_t index) const { return names_[index]; }

 private:
  bool fits(const TreeName& tensor) const {
    if (!is_optimizer_state(tensor.path, component_of(tensor.path[0])) ||
        tensor.shape.empty()) {
      return true;
    }
    const std::size_t index = state_index(tensor.path[2]);
    return index < shapes_.size() && shapes_[index] == tensor.shape;
  }

  std::vector<std::string> names_;
  std::vector<Shape> shapes_;
  bool valid_ = false;
};

std::string name_of_state(const TreePath& path, const Numbering& numbering) {
  const std::string& parameter = path[2];
  const std::size_t index = state_index(parameter);
  const std::string kind = "." + join_path_from(path, 3);
  if (index == static_cast<std::size_t>(-1)) {
    return "optimizer/" + parameter + kind;
  }
  return numbering.valid() ? "optimizer/" + numbering.name(index) + kind
                           : "optimizer/state." + parameter + kind;
}

std::string name_of_path(const TreePath& path, const Numbering& numbering) {
  const std::string component = component_of(path[0]);
  if (path.size() == 1) {
    return "state/" + path[0];
  }
  if (is_optimizer_state(path, component)) {
    return name_of_state(path, numbering);
  }
  return component + "/" + join_path_from(path, 1);
}

} // namespace

StateTree state_tree(const PickleValue& root) {
  return TreeWalk().run(root);
}

void set_value(
    nlohmann::json& values, const TreePath& path, nlohmann::json value) {
  nlohmann::json* at = &values;
  for (const std::string& key : path) {
    if (!at->is_object()) {
      *at = nlohmann::json::object();
    }
    at = &(*at)[key];
  }
  *at = std::move(value);
}

std::vector<std::string> checkpoint_names(
    const std::vector<TreeName>& tensors, std::size_t num_optimized) {
  bool flat = true;
  for (const TreeName& tensor : tensors) {
    flat = flat && tensor.path.size() <= 1;
  }
  const Numbering numbering(tensors, num_optimized);
  std::vector<std::string> names;
  for (const TreeName& tensor : tensors) {
    if (flat) {
      names.push_back(
          "model/" + (tensor.path.empty() ? "tensor" : tensor.path[0]));
    } else {
      names.push_back(name_of_path(tensor.path, numbering));
    }
  }
  return names;
}

std::size_t count_optimized(const nlohmann::json& values) {
  std::size_t count = 0;
  for (const auto& [key, value] : values.items()) {
    if (component_of(key) != "optimizer" || !value.is_object() ||
        !value.contains("param_groups")) {
      continue;
    }
    for (const auto& group : value["param_groups"]) {
      if (group.is_object() && group.contains("params")) {
        count += group["params"].size();
      }
    }
  }
  return count;
}

std::int64_t step_of_values(const nlohmann::json& values) {
  for (const char* key : {"step", "global_step", "iteration"}) {
    if (values.contains(key) && values[key].is_number_integer() &&
        values[key].get<std::int64_t>() >= 0) {
      return values[key].get<std::int64_t>();
    }
  }
  return 0;
}

} // namespace argosy::checkpoint
