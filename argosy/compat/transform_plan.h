#pragma once

#include <functional>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "argosy/compat/job_layout.h"
#include "argosy/compat/transform_report.h"

// Which blocks of which ranks' files become what a rank of another layout
// holds. Planned on blocks, so numbers of devices need not divide one another.
// Pure.
namespace argosy::compat {

// A part of a parameter that comes from one rank.
struct SourcePart {
  int rank = 0;
  dtensor::Box held; // what that rank has of the tensor
  dtensor::Box part; // what is taken of it

  bool operator==(const SourcePart&) const = default;
};

struct ParameterPlan {
  std::string name;
  dtensor::Shape shape;
  dtensor::Box target; // what the rank gets; the parts make it up, once
  std::vector<SourcePart> parts;

  bool operator==(const ParameterPlan&) const = default;
};

struct RankPlan {
  int rank = 0;
  std::vector<ParameterPlan> parameters; // by name

  std::vector<int> source_ranks() const; // ascending

  bool operator==(const RankPlan&) const = default;
};
std::ostream& operator<<(std::ostream& out, const RankPlan& plan);

// Plans the transformation of one layout into another, rank by rank.
class TransformPlanner {
 public:
  // The files of the source ranks. Files may be lost, or saved without
  // redundancy.
  struct Files {
    // Whether a rank's file has a parameter. Null: as the layout says.
    std::function<bool(int rank, const std::string& name)> has;
    // What errors call the file of a rank. Null: "rank 3".
    std::function<std::string(int rank)> name;
  };
  using Shapes = std::map<std::string, dtensor::Shape>;

  // `shapes` has those of the parameters of both layouts that the strategies do
  // not know; without them, ones that all slices divide stand for them, which
  // is enough to know the ranks. Throws InvalidArgument, naming the parameter,
  // when shapes do not match.
  TransformPlanner(
      JobLayout from,
      JobLayout to,
      const Shapes& shapes = {},
      Files files = {});

  // Reads from as few ranks as possible; from its own number where that makes
  // no difference. Throws CheckpointError that names the parameter and the
  // files, if none of the ranks that hold a block has it.
  RankPlan plan(int rank) const;

  const JobLayout& from() const { return from_; }
  const JobLayout& to() const { return to_; }
  const TransformReport& report() const { return report_; }
  void add_to_report(const TransformReport& more);

 private:
  struct Parameter {
    dtensor::Shape shape;
    std::vector<HeldBox> sources;
  };

  std::vector<const HeldBox*> needed(
      const std::string& name,
      const Parameter& parameter,
      const dtensor::Box& target) const;

  JobLayout from_;
  JobLayout to_;
  Files files_;
  std::map<std::string, Parameter> parameters_; // of both
  TransformReport report_;
};

} // namespace argosy::compat
