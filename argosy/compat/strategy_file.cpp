#include "argosy/compat/strategy_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/json.h"
#include "argosy/common/text.h"

namespace argosy {

using nlohmann::json;

namespace {

json map_json(const std::vector<std::vector<int>>& tensor_map) {
  json result = json::array();
  for (const auto& axes : tensor_map) {
    if (axes.size() > 1) {
      result.push_back(axes);
    } else {
      result.push_back(axes.empty() ? -1 : axes[0]);
    }
  }
  return result;
}

json layout_json(const ParallelLayout& layout) {
  json item{
      {"dev_matrix", layout.dev_matrix},
      {"tensor_map", map_json(layout.tensor_map)},
      {"field", layout.field},
      {"opt_weight_shard_step", layout.opt_weight_shard_step},
      {"opt_weight_shard_size", layout.opt_weight_shard_size}};
  if (layout.tensor_shape) {
    item["tensor_shape"] = *layout.tensor_shape;
  }
  if (!layout.param_split_shape.empty()) {
    item["param_split_shape"] = layout.param_split_shape;
    item["indices_offset"] = layout.indices_offset;
  }
  if (!layout.rank_list.empty()) {
    item["rank_list"] = layout.rank_list;
  }
  return item;
}

// Reads the fields of one item; errors name the parameter and the key.
class LayoutReader {
 public:
  LayoutReader(const json& item, std::string where)
      : item_(item), where_(std::move(where)) {
    ARGOSY_CHECK(item.is_object(), "{}: expected an object", where_);
  }

  ParallelLayout read() const {
    ParallelLayout layout;
    layout.dev_matrix = list("dev_matrix", true);
    for (const json& axes : array("tensor_map")) {
      layout.tensor_map.push_back(axes_of(axes));
    }
    if (item_.contains("tensor_shape")) {
      layout.tensor_shape = list("tensor_shape", true);
    }
    layout.field = number("field");
    layout.opt_weight_shard_step = number("opt_weight_shard_step");
    layout.opt_weight_shard_size = number("opt_weight_shard_size");
    layout.param_split_shape = list("param_split_shape", false);
    layout.indices_offset = list("indices_offset", false);
    for (const std::int64_t rank : list("rank_list", false)) {
      layout.rank_list.push_back(static_cast<int>(rank));
    }
    return layout;
  }

 private:
  std::int64_t integer(const json& value, const char* key) const {
    ARGOSY_CHECK(
        value.is_number_integer() &&
            value.get<std::int64_t>() < std::int64_t{1} << 48 &&
            value.get<std::int64_t>() >= -1,
        "{}: {} has {}, expected a number from -1",
        where_,
        key,
        value.dump());
    return value.get<std::int64_t>();
  }

  const json& array(const char* key) const {
    const auto found = item_.find(key);
    ARGOSY_CHECK(
        found != item_.end() && found->is_array(),
        "{}: expected a list {}",
        where_,
        key);
    return *found;
  }

  dtensor::Shape list(const char* key, bool required) const {
    dtensor::Shape result;
    if (required || item_.contains(key)) {
      for (const json& value : array(key)) {
        result.push_back(integer(value, key));
      }
    }
    return result;
  }

  std::int64_t number(const char* key) const {
    const auto found = item_.find(key);
    return found == item_.end() ? 0 : integer(*found, key);
  }

  std::vector<int> axes_of(const json& value) const {
    std::vector<int> axes;
    for (const json& each : value.is_array() ? value : json::array({value})) {
      const std::int64_t axis = integer(each, "tensor_map");
      if (axis >= 0) {
        axes.push_back(static_cast<int>(std::min<std::int64_t>(axis, 1 << 20)));
      }
    }
    return axes;
  }

  const json& item_;
  std::string where_;
};

json nodes_of(const ParallelStrategy& strategy) {
  json nodes = parse_json(strategy.nodes, "[strategy] nodes");
  ARGOSY_CHECK(
      nodes.is_object(),
      "[strategy] nodes are {}, expected an object",
      strategy.nodes);
  return nodes;
}

std::string stage_name(int stage, const std::string& name) {
  return str(stage, "-", name);
}

std::vector<std::filesystem::path> json_files(
    const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") {
      files.push_back(entry.path());
    }
  }
  if (error || files.empty()) {
    throw CheckpointError(
        str("[strategy] ", folder.string(), ": no files *.json"));
  }
  std::ranges::sort(files);
  return files;
}

} // namespace

ParallelStrategy build_searched_strategy(const std::filesystem::path& file) {
  const auto text = read_file(file);
  if (!text) {
    throw CheckpointError(
        str("[strategy] ", file.string(), ": no such strategy file"));
  }
  if (trim(*text).empty()) {
    throw CheckpointError(
        str("[strategy] ", file.string(), ": the strategy file is empty"));
  }
  return compat::parse_strategy(*text, str("[strategy] ", file.string()));
}

void save_strategy(
    const std::filesystem::path& file, const ParallelStrategy& strategy) {
  for (const auto& [name, layout] : strategy.layouts) {
    compat::check_layout(layout, name);
  }
  write_file(file, compat::to_json(strategy));
}

ParallelStrategy strategy_of(const std::vector<PlacedTensor>& tensors) {
  std::set<int> stages;
  const auto stage_of_mesh = [](const ProcessMesh& mesh) {
    return std::ranges::min(mesh.process_ids()) / mesh.size();
  };
  for (const PlacedTensor& tensor : tensors) {
    stages.insert(stage_of_mesh(tensor.attr.mesh));
  }
  ParallelStrategy strategy;
  strategy.current_stage = stages.size() == 1 ? *stages.begin() : 1;
  for (const PlacedTensor& tensor : tensors) {
    const int stage = stage_of_mesh(tensor.attr.mesh);
    const std::string name =
        stages.size() == 1 ? tensor.name : stage_name(stage, tensor.name);
    const bool is_new =
        strategy.layouts.emplace(name, layout_of(tensor.shape, tensor.attr))
            .second;
    ARGOSY_CHECK(is_new, "[strategy] {} is there twice", name);
  }
  return strategy;
}

void merge_pipeline_strategies(
    const std::filesystem::path& src_dir,
    const std::filesystem::path& dst_file) {
  std::vector<std::pair<std::string, ParallelStrategy>> files;
  for (const auto& file : json_files(src_dir)) {
    // An earlier result may be in the same folder.
    ParallelStrategy strategy = build_searched_strategy(file);
    if (file.filename() != dst_file.filename() ||
        !compat::has_all_stages(strategy)) {
      files.emplace_back(file.string(), std::move(strategy));
    }
  }
  save_strategy(dst_file, compat::merge_stages(files));
}

namespace compat {

int stage_of(const ParallelStrategy& strategy) {
  for (const json& node : nodes_of(strategy)) {
    const auto stage = node.is_object() ? node.find("stage") : node.end();
    if (stage != node.end() && stage->is_number_integer()) {
      return stage->get<int>();
    }
  }
  return strategy.current_stage;
}

std::pair<int, std::string> split_stage(const std::string& name) {
  const std::size_t dash = name.find('-');
  if (dash == 0 || dash == std::string::npos || dash > 6 ||
      !std::ranges::all_of(
          name.substr(0, dash), [](char c) { return c >= '0' && c <= '9'; })) {
    return {-1, name};
  }
  return {std::stoi(name.substr(0, dash)), name.substr(dash + 1)};
}

bool has_all_stages(const ParallelStrategy& strategy) {
  return !strategy.layouts.empty() &&
      std::ranges::all_of(strategy.layouts, [](const auto& item) {
        return split_stage(item.first).first >= 0;
      });
}

std::string to_json(const ParallelStrategy& strategy) {
  json items = json::object();
  for (const auto& [name, layout] : strategy.layouts) {
    items[name] = layout_json(layout);
  }
  const json document{
      {"current_stage", strategy.current_stage},
      {"parallel_strategy_item", nodes_of(strategy)},
      {"parallel_layout_item", items}};
  return document.dump(2) + "\n";
}

ParallelStrategy parse_strategy(
    std::string_view text, const std::string& where) {
  json document;
  try {
    document = parse_json(text, where);
  } catch (const InvalidArgument& error) {
    throw CheckpointError(
        str(error.what(), "; expected a strategy in JSON, not in protobuf"));
  }
  const bool fits = document.is_object() &&
      document.contains("parallel_layout_item") &&
      document["parallel_layout_item"].is_object() &&
      !document["parallel_layout_item"].empty();
  if (!fits) {
    throw CheckpointError(
        where + ": no parallel_layout_item, expected a strategy file");
  }
  ParallelStrategy strategy;
  const json stage = document.value("current_stage", json(0));
  strategy.current_stage = stage.is_number_integer() ? stage.get<int>() : 0;
  if (document.contains("parallel_strategy_item") &&
      document["parallel_strategy_item"].is_object()) {
    strategy.nodes = document["parallel_strategy_item"].dump();
  }
  for (const auto& [name, item] : document["parallel_layout_item"].items()) {
    ParallelLayout layout = LayoutReader(item, where + ": " + name).read();
    check_layout(layout, name);
    strategy.layouts.emplace(name, std::move(layout));
  }
  return strategy;
}

ParallelStrategy merge_stages(
    const std::vector<std::pair<std::string, ParallelStrategy>>& files) {
  ParallelStrategy merged;
  merged.current_stage = 1; // as MindSpore marks merged files
  json nodes = json::object();
  std::set<int> stages;
  for (const auto& [file, strategy] : files) {
    ARGOSY_CHECK(
        !has_all_stages(strategy), "[strategy] {} is merged already", file);
    const int stage = stage_of(strategy);
    if (!stages.insert(stage).second) {
      continue; // each rank of a stage writes the same
    }
    for (const auto& [name, layout] : strategy.layouts) {
      merged.layouts.emplace(stage_name(stage, name), layout);
    }
    nodes.update(nodes_of(strategy));
  }
  std::vector<int> missing;
  for (int stage = 0; !stages.empty() && stage < *stages.rbegin(); ++stage) {
    if (!stages.contains(stage)) {
      missing.push_back(stage);
    }
  }
  if (!missing.empty() || stages.empty()) {
    throw CheckpointError(
        str("[strategy] no files of stages ",
            stages.empty() ? "0" : ranges_text(missing),
            ", expected a file of each stage"));
  }
  merged.nodes = nodes.dump();
  return merged;
}

} // namespace compat
} // namespace argosy
