#include "argosy/compat/transform_plan.h"

#include <algorithm>
#include <ostream>
#include <set>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/compat/hitting_set.h"

namespace argosy {

std::ostream& operator<<(std::ostream& out, const TransformReport& report) {
  return out << "only in the source: [" << join(report.only_in_source, ", ")
             << "], only in the target: [" << join(report.only_in_target, ", ")
             << "]";
}

namespace compat {

using dtensor::Box;
using dtensor::Shape;

namespace {

std::string shape_text(const Shape& shape) {
  return to_string(dtensor::whole(shape));
}

// A shape that the slices of both layouts divide.
Shape stand_in_shape(
    const JobLayout& from, const JobLayout& to, const std::string& name) {
  Shape shape;
  for (const JobLayout* job : {&from, &to}) {
    for (const auto& [stage, layout] : job->parameters.at(name)) {
      const Shape parts = num_parts(layout);
      shape.resize(std::max(shape.size(), parts.size()), 1);
      for (std::size_t dim = 0; dim < parts.size(); ++dim) {
        shape[dim] *= parts[dim];
      }
    }
  }
  return shape;
}

void check_dims(
    const JobLayout& job, const std::string& name, const Shape& shape) {
  for (const auto& [stage, layout] : job.parameters.at(name)) {
    ARGOSY_CHECK(
        layout.tensor_map.size() == shape.size() &&
            (!layout.tensor_shape || *layout.tensor_shape == shape),
        "[transform] {} has shape {}, but a strategy has {}",
        name,
        shape_text(shape),
        layout);
  }
}

Shape shape_of_both(
    const JobLayout& from,
    const JobLayout& to,
    const std::string& name,
    const TransformPlanner::Shapes& shapes) {
  std::optional<Shape> shape = shape_in(from, name);
  if (!shape) {
    shape = shape_in(to, name);
  }
  if (const auto found = shapes.find(name); !shape && found != shapes.end()) {
    shape = found->second;
  }
  if (!shape) {
    shape = stand_in_shape(from, to, name);
  }
  check_dims(from, name, *shape);
  check_dims(to, name, *shape);
  return *shape;
}

std::vector<int> those_that_have(
    const std::vector<int>& ranks,
    const std::string& name,
    const TransformPlanner::Files& files) {
  std::vector<int> result;
  std::ranges::copy_if(ranks, std::back_inserter(result), [&](int rank) {
    return !files.has || files.has(rank, name);
  });
  return result;
}

std::string file_names(
    const std::vector<int>& ranks, const TransformPlanner::Files& files) {
  std::vector<std::string> names;
  for (const int rank : ranks) {
    names.push_back(files.name ? files.name(rank) : str("rank ", rank));
  }
  return join(names, " or ");
}

} // namespace

std::vector<int> RankPlan::source_ranks() const {
  std::set<int> ranks;
  for (const ParameterPlan& parameter : parameters) {
    for (const SourcePart& part : parameter.parts) {
      ranks.insert(part.rank);
    }
  }
  return {ranks.begin(), ranks.end()};
}

std::ostream& operator<<(std::ostream& out, const RankPlan& plan) {
  out << "rank " << plan.rank;
  for (const ParameterPlan& parameter : plan.parameters) {
    out << "\n  " << parameter.name << " " << parameter.target << ":";
    for (const SourcePart& part : parameter.parts) {
      out << " " << part.part << " of rank " << part.rank;
    }
  }
  return out;
}

void TransformPlanner::add_to_report(const TransformReport& more) {
  const auto add = [](auto& names, const auto& others) {
    names.insert(names.end(), others.begin(), others.end());
    std::ranges::sort(names);
    const auto same = std::ranges::unique(names);
    names.erase(same.begin(), same.end());
  };
  add(report_.only_in_source, more.only_in_source);
  add(report_.only_in_target, more.only_in_target);
}

TransformPlanner::TransformPlanner(
    JobLayout from, JobLayout to, const Shapes& shapes, Files files)
    : from_(std::move(from)), to_(std::move(to)), files_(std::move(files)) {
  for (const auto& [name, layouts] : from_.parameters) {
    if (!to_.parameters.contains(name)) {
      report_.only_in_source.push_back(name);
      continue;
    }
    Parameter parameter;
    parameter.shape = shape_of_both(from_, to_, name, shapes);
    for (HeldBox& held : held_boxes(from_, name, parameter.shape)) {
      held.ranks = those_that_have(held.ranks, name, files_);
      parameter.sources.push_back(std::move(held));
    }
    parameters_.emplace(name, std::move(parameter));
  }
  for (const auto& [name, layouts] : to_.parameters) {
    if (!from_.parameters.contains(name)) {
      report_.only_in_target.push_back(name);
    }
  }
}

std::vector<const HeldBox*> TransformPlanner::needed(
    const std::string& name,
    const Parameter& parameter,
    const Box& target) const {
  std::vector<const HeldBox*> result;
  for (const HeldBox& source : parameter.sources) {
    if (intersection(source.box, target).numel() == 0) {
      continue;
    }
    if (source.ranks.empty()) {
      std::vector<int> ranks;
      for (const HeldBox& held : held_boxes(from_, name, parameter.shape)) {
        ranks = held.box == source.box ? held.ranks : ranks;
      }
      throw CheckpointError(
          str("[transform] no file has ",
              name,
              " ",
              source.box,
              ", expected it in ",
              file_names(ranks, files_)));
    }
    result.push_back(&source);
  }
  return result;
}

RankPlan TransformPlanner::plan(int rank) const {
  ARGOSY_CHECK(
      rank >= 0 && rank < to_.num_ranks(),
      "[transform] rank {}, expected 0 to {}",
      rank,
      to_.num_ranks() - 1);
  RankPlan plan{rank, {}};
  std::vector<std::vector<const HeldBox*>> sources;
  std::vector<std::vector<int>> lists;
  for (const auto& [name, parameter] : parameters_) {
    const ParallelLayout* layout = layout_at(to_, name, rank);
    if (layout == nullptr) {
      continue; // of another stage
    }
    const Box target = box_of(*layout, parameter.shape, rank % to_.devices);
    plan.parameters.push_back({name, parameter.shape, target, {}});
    sources.push_back(needed(name, parameter, target));
    for (const HeldBox* held : sources.back()) {
      lists.push_back(held->ranks);
    }
  }
  const int preferred =
      from_.first_rank() + rank % std::max(from_.num_ranks(), 1);
  const std::vector<int> chosen = hitting_set(std::move(lists), preferred);
  const auto giver = [&](const HeldBox& held) {
    return *std::ranges::find_if(held.ranks, [&](int r) {
      return std::ranges::binary_search(chosen, r);
    });
  };
  for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
    ParameterPlan& parameter = plan.parameters[i];
    for (const HeldBox* held : sources[i]) {
      parameter.parts.push_back(
          {giver(*held), held->box, intersection(held->box, parameter.target)});
    }
  }
  return plan;
}

} // namespace compat
} // namespace argosy
