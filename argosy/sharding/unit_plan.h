#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "argosy/training/bucket.h"

// How parameters are cut over ranks: a pure plan. Torch-free.
namespace argosy::sharding {

using training::Bucket;
using training::BucketEntry;
using training::ParameterInfo;

// Parameters that are gathered and whose gradients are reduced together. Its
// buckets separate them by type and flags. Each rank owns an equal slice of
// every bucket.
struct UnitPlan {
  std::string name;
  std::vector<Bucket> buckets;
  bool resident = true; // whole on every rank, not only while it is used

  bool operator==(const UnitPlan&) const = default;
};

std::ostream& operator<<(std::ostream& out, const std::vector<UnitPlan>& plan);

// The parameters of a unit, by index.
struct UnitMembers {
  std::string name;
  std::vector<std::size_t> parameters;
};

// Groups parameters into units of up to `bytes`, in the reverse of the order of
// registration, which is the order of their gradients. With 0 bytes every
// parameter is a unit. Leaves out parameters that do not train. Units have
// either distributed parameters only, or none; so with experts.
std::vector<UnitMembers> members_by_size(
    const std::vector<ParameterInfo>& parameters, std::size_t bytes);

// Groups parameters by the modules that `boundaries` name: "encoder", or
// "blocks.*" for each entry of a list. Without boundaries, each entry of a list
// or sequence of modules is a unit, and the other parameters are grouped by
// their top-level modules. A unit of fewer than `least_bytes` joins the unit
// before it. Throws InvalidArgument for a boundary that contains no parameter.
std::vector<UnitMembers> members_by_module(
    const std::vector<ParameterInfo>& parameters,
    const std::vector<std::string>& boundaries,
    std::size_t least_bytes);

// Makes units of parameters with fusion ids (ParameterMarks::comm_fusion);
// `others` groups those without.
std::vector<UnitMembers> members_by_fusion(
    const std::vector<ParameterInfo>& parameters,
    const std::function<
        std::vector<UnitMembers>(const std::vector<ParameterInfo>&)>& others);

// Lays the members out in buckets that `num_ranks` ranks can share equally.
UnitPlan plan_unit(
    const std::vector<ParameterInfo>& parameters,
    const UnitMembers& members,
    int num_ranks);

// The range of a parameter that lies in one rank's slice of a bucket.
struct Piece {
  std::size_t parameter = 0;
  std::int64_t from = 0;    // in the parameter
  std::int64_t in_part = 0; // in the rank's slice
  std::int64_t count = 0;

  bool operator==(const Piece&) const = default;
};

// At most one piece of each parameter.
std::vector<Piece> pieces_of(const Bucket& bucket, int rank, int num_ranks);

} // namespace argosy::sharding
