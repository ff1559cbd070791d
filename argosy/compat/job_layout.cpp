#include "argosy/compat/job_layout.h"

#include <algorithm>
#include <set>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::compat {

using dtensor::Box;
using dtensor::Shape;

namespace {

void check_stage_set(const std::set<int>& stages) {
  std::vector<int> missing;
  for (int stage = 0; stage < *stages.rbegin(); ++stage) {
    if (!stages.contains(stage)) {
      missing.push_back(stage);
    }
  }
  ARGOSY_CHECK(
      missing.empty(),
      "[strategy] parameters of stages {} are missing, expected all of 0 to {}",
      ranges_text(missing),
      *stages.rbegin());
}

} // namespace

JobLayout job_layout(const ParallelStrategy& strategy, bool stage_ranks_only) {
  ARGOSY_CHECK(!strategy.layouts.empty(), "[strategy] no parameters");
  const bool merged = has_all_stages(strategy);
  JobLayout job;
  job.devices = num_devices(strategy.layouts.begin()->second);
  job.first_stage = stage_ranks_only && !merged ? stage_of(strategy) : 0;
  std::set<int> stages;
  // Keys are sorted as text, "10-a" before "2-a".
  std::map<std::pair<std::string, int>, const ParallelLayout*> sorted;
  for (const auto& [key, layout] : strategy.layouts) {
    check_layout(layout, key);
    const int devices = num_devices(layout);
    ARGOSY_CHECK(
        devices == job.devices,
        "[strategy] {} has {} devices, {} has {}, expected equally many",
        strategy.layouts.begin()->first,
        job.devices,
        key,
        devices);
    const auto [stage, name] =
        merged ? split_stage(key) : std::pair{job.first_stage, key};
    stages.insert(stage);
    sorted.emplace(std::pair(name, stage), &layout);
  }
  for (const auto& [key, layout] : sorted) {
    job.parameters[key.first].push_back({key.second, *layout});
  }
  if (merged) {
    check_stage_set(stages);
    job.num_stages = static_cast<int>(stages.size());
  }
  return job;
}

JobLayout unsharded_like(const JobLayout& other) {
  JobLayout job;
  for (const auto& [name, layouts] : other.parameters) {
    ParallelLayout whole = ParallelLayout::unsharded(shape_in(other, name));
    whole.tensor_map.resize(layouts.front().layout.tensor_map.size());
    job.parameters[name] = {{0, std::move(whole)}};
  }
  return job;
}

const ParallelLayout* layout_at(
    const JobLayout& job, const std::string& name, int rank) {
  const auto found = job.parameters.find(name);
  if (found == job.parameters.end()) {
    return nullptr;
  }
  for (const auto& [stage, layout] : found->second) {
    if (stage == rank / job.devices) {
      return &layout;
    }
  }
  return nullptr;
}

std::optional<Shape> shape_in(const JobLayout& job, const std::string& name) {
  std::optional<Shape> shape;
  const auto found = job.parameters.find(name);
  if (found == job.parameters.end()) {
    return shape;
  }
  for (const auto& [stage, layout] : found->second) {
    ARGOSY_CHECK(
        !shape || !layout.tensor_shape || *shape == *layout.tensor_shape,
        "[strategy] {} has another shape in stage {}: {}",
        name,
        stage,
        layout);
    shape = shape ? shape : layout.tensor_shape;
  }
  return shape;
}

std::vector<HeldBox> held_boxes(
    const JobLayout& job, const std::string& name, const Shape& shape) {
  std::map<std::pair<Shape, Shape>, std::size_t> index;
  std::vector<HeldBox> held;
  for (const auto& [stage, layout] : job.parameters.at(name)) {
    const bool is_first = stage == job.parameters.at(name).front().stage;
    for (int device = 0; device < job.devices; ++device) {
      const Box box = box_of(layout, shape, device);
      if (box.numel() == 0) {
        continue;
      }
      const std::pair key{box.offset, box.size};
      if (is_first && index.emplace(key, held.size()).second) {
        held.push_back({box, {}});
      }
      if (const auto found = index.find(key); found != index.end()) {
        held[found->second].ranks.push_back(stage * job.devices + device);
      }
    }
  }
  return held;
}

} // namespace argosy::compat
