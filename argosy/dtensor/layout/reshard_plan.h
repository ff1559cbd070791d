#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "argosy/dtensor/layout/dist_attr.h"
#include "argosy/dtensor/layout/layout.h"

// How a tensor comes from one place to another: a list of local cuts and
// collectives, the cheapest found. Pure.
namespace argosy::dtensor {

enum class StepKind {
  Slice,       // local: a rank keeps a part of what it has
  MakePartial, // local: one rank keeps the value, the others what adds nothing
  AllGather,   // equal chunks of one axis, along one dim
  AllToAll,    // any other change of shards within the mesh
  AllReduce,   // Partial becomes Replicate
  ReduceScatter, // Partial becomes Shard
  Transfer,      // to another mesh, whose ranks and shape may differ
};

struct ReshardStep {
  StepKind kind;
  DistAttr from;
  DistAttr to;
  std::vector<int> axes;  // of the mesh, whose ranks take part; not of Transfer
  std::int64_t bytes = 0; // that the rank with the most to get receives

  bool operator==(const ReshardStep&) const = default;
};

struct ReshardPlan {
  std::vector<ReshardStep> steps;

  std::int64_t bytes() const;
  int num_collectives() const;
  // What plans are compared by: bytes, and what it takes to start a collective.
  std::int64_t cost() const;

  bool operator==(const ReshardPlan&) const = default;
};

// `item_bytes` is the size of an element.
ReshardPlan plan_reshard(
    const Shape& global,
    std::int64_t item_bytes,
    const DistAttr& from,
    const DistAttr& to);

bool is_local(StepKind kind);

// "all_gather(axis 0): [S(0), R] -> [R, R], 96 bytes"
std::string to_string(StepKind kind);
std::string to_string(const ReshardStep& step);
std::string to_string(const ReshardPlan& plan);
std::ostream& operator<<(std::ostream& out, const ReshardPlan& plan);

} // namespace argosy::dtensor
