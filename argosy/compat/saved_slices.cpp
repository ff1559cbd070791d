#include "argosy/compat/saved_slices.h"

#include <algorithm>
#include <cstring>

#include "argosy/checkpoint/boxes.h"
#include "argosy/common/error.h"

namespace argosy::compat {

using dtensor::Shape;

namespace {

// The whole of which equal parts have this shape; nullopt if parts may differ.
std::optional<Shape> whole_of_part(
    const ParallelLayout& layout, const Shape& part) {
  const Shape parts = num_parts(layout);
  if (parts.size() != part.size() || !layout.param_split_shape.empty()) {
    return std::nullopt;
  }
  Shape whole = part;
  for (std::size_t dim = 0; dim < part.size(); ++dim) {
    whole[dim] *= parts[dim];
  }
  return whole;
}

} // namespace

SavedSlices::SavedSlices(
    const std::map<int, std::filesystem::path>& files,
    std::function<std::string(int)> missing)
    : missing_(std::move(missing)) {
  for (const auto& [rank, path] : files) {
    files_.emplace_back(path);
    tensors_[rank] = files_.back().tensors();
    paths_[rank] = path.string();
  }
}

SavedSlices::SavedSlices(const std::vector<Entry>& of_one_tensor) {
  for (const Entry& entry : of_one_tensor) {
    const int rank = static_cast<int>(tensors_.size());
    tensors_[rank][entry.info.name] = entry;
  }
}

const SavedSlices::Entry* SavedSlices::find(
    int rank, const std::string& name) const {
  const auto of_rank = tensors_.find(rank);
  if (of_rank == tensors_.end()) {
    return nullptr;
  }
  const auto found = of_rank->second.find(name);
  return found == of_rank->second.end() ? nullptr : &found->second;
}

std::set<std::string> SavedSlices::names() const {
  std::set<std::string> names;
  for (const auto& [rank, tensors] : tensors_) {
    for (const auto& [name, entry] : tensors) {
      names.insert(name);
    }
  }
  return names;
}

std::string SavedSlices::file_of(int rank) const {
  if (const auto path = paths_.find(rank); path != paths_.end()) {
    return path->second;
  }
  return missing_ ? missing_(rank) : str("rank ", rank);
}

// A strategy may lack shapes (protobuf had none); then equal slices tell them.
TransformPlanner::Shapes SavedSlices::shapes_of(const JobLayout& from) const {
  TransformPlanner::Shapes shapes;
  for (const auto& [name, layouts] : from.parameters) {
    for (const auto& [stage, layout] : layouts) {
      for (int device = 0; device < from.devices; ++device) {
        const Entry* entry = find(stage * from.devices + device, name);
        const auto whole =
            entry ? whole_of_part(layout, entry->info.shape) : std::nullopt;
        if (whole) {
          shapes.emplace(name, *whole);
        }
      }
    }
  }
  return shapes;
}

TransformPlanner SavedSlices::planner(
    JobLayout from, JobLayout to, bool may_lack) const {
  std::set<std::string> unknown = names();
  std::erase_if(unknown, [&](const auto& name) {
    return from.parameters.contains(name);
  });
  if (may_lack) {
    const std::set<std::string> known = names();
    std::erase_if(from.parameters, [&](const auto& item) {
      return !known.contains(item.first);
    });
  }
  const auto shapes = shapes_of(from);
  TransformPlanner planner(
      std::move(from),
      std::move(to),
      shapes,
      {[this](int rank, const auto& name) {
         return find(rank, name) != nullptr;
       },
       [this](int rank) { return file_of(rank); }});
  planner.add_to_report({{unknown.begin(), unknown.end()}, {}});
  return planner;
}

checkpoint::TensorInfo SavedSlices::info_of(const ParameterPlan& plan) const {
  const Entry* entry = nullptr;
  if (!plan.parts.empty()) {
    entry = find(plan.parts[0].rank, plan.name);
  }
  for (const auto& [rank, tensors] : tensors_) {
    entry = entry != nullptr ? entry : find(rank, plan.name);
  }
  if (entry == nullptr) {
    throw CheckpointError(str("[transform] no file has ", plan.name));
  }
  return {plan.name, entry->info.dtype, plan.target.size};
}

const SavedSlices::Entry& SavedSlices::slice_of(
    const ParameterPlan& plan, const SourcePart& part) const {
  const Entry& entry = *find(part.rank, plan.name);
  const checkpoint::TensorInfo expected{
      plan.name, info_of(plan).dtype, part.held.size};
  if (entry.info != expected) {
    throw CheckpointError(
        str("[transform] ",
            file_of(part.rank),
            " has ",
            entry.info,
            ", expected ",
            expected,
            ": ",
            part.held,
            " of the whole"));
  }
  return entry;
}

void SavedSlices::fill(
    const ParameterPlan& plan, std::span<std::byte> target) const {
  const std::size_t size = checkpoint::element_bytes(info_of(plan).dtype);
  for (const SourcePart& part : plan.parts) {
    const Entry& entry = slice_of(plan, part);
    checkpoint::for_each_run(
        part.held,
        0,
        part.held.numel(),
        plan.target,
        [&](const checkpoint::Run& run) {
          std::memcpy(
              target.data() + static_cast<std::size_t>(run.to) * size,
              entry.bytes.data() + static_cast<std::size_t>(run.from) * size,
              static_cast<std::size_t>(run.count) * size);
        });
  }
}

std::vector<TensorSource> sources_of(
    const SavedSlices& slices, const RankPlan& plan) {
  std::vector<TensorSource> sources;
  for (const ParameterPlan& parameter : plan.parameters) {
    TensorSource source;
    source.info = slices.info_of(parameter);
    source.fill = [&slices, &parameter](std::span<std::byte> bytes) {
      slices.fill(parameter, bytes);
    };
    if (parameter.target.size != parameter.shape) {
      source.whole = parameter.shape;
      source.box = parameter.target;
    }
    sources.push_back(std::move(source));
  }
  return sources;
}

} // namespace argosy::compat
