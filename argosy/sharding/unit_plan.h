#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

// How parameters are cut over ranks: a pure plan. Torch-free.
namespace argosy::sharding {

// A parameter as the plan sees it.
struct ParameterInfo {
  std::string name;
  std::int64_t count = 0;  // elements
  std::size_t element = 4; // bytes of one
  std::string type = "Float";
  bool trainable = true;
  // A part of a layer that other ranks have the rest of: its size may differ
  // there, and must not decide about what is whole.
  bool is_distributed = false;
  // Of an expert, which other ranks have others of: averaged over others.
  bool is_expert = false;

  std::size_t bytes() const {
    return static_cast<std::size_t>(count) * element;
  }
};

// Where a parameter lies in a flat buffer, in elements.
struct FlatEntry {
  std::size_t parameter = 0; // index
  std::int64_t begin = 0;
  std::int64_t count = 0;

  bool operator==(const FlatEntry&) const = default;
};

// Parameters of one type side by side, trainable or not, whole or parts of a
// layer, of experts or not, in a buffer of which each rank owns an equal part.
struct FlatPlan {
  std::string type;
  std::size_t element = 4;
  bool trainable = true;
  bool is_distributed = false;
  bool is_expert = false;
  std::int64_t count = 0; // elements, with gaps between entries
  std::vector<FlatEntry> entries;

  std::size_t bytes() const {
    return static_cast<std::size_t>(count) * element;
  }
  bool operator==(const FlatPlan&) const = default;
};

// What is communicated together.
struct UnitPlan {
  std::string name;
  std::vector<FlatPlan> flats;
  bool resident = true; // whole on every rank, not only while it is used

  bool operator==(const UnitPlan&) const = default;
};

std::ostream& operator<<(std::ostream& out, const std::vector<UnitPlan>& plan);

// Parameters that belong together, by index.
struct UnitMembers {
  std::string name;
  std::vector<std::size_t> parameters;
};

// In the reverse of registration, which is the order of their gradients, up to
// `bytes`; 0 for every parameter alone. Parameters that do not train are left
// out, and parts of layers lie apart.
std::vector<UnitMembers> members_by_size(
    const std::vector<ParameterInfo>& parameters, std::size_t bytes);

// By the modules that `boundaries` name: "encoder", or "blocks.*" for each of a
// list. Without boundaries, each entry of a list or sequence of modules, and
// what is left by the modules on top. What has less than `least_bytes` goes
// with what is registered before it. Throws InvalidArgument for a boundary that
// no parameter lies in.
std::vector<UnitMembers> members_by_module(
    const std::vector<ParameterInfo>& parameters,
    const std::vector<std::string>& boundaries,
    std::size_t least_bytes);

UnitPlan plan_unit(
    const std::vector<ParameterInfo>& parameters,
    const UnitMembers& members,
    int num_ranks);

// A range of a parameter that one rank owns.
struct Piece {
  std::size_t parameter = 0;
  std::int64_t from = 0;    // in the parameter
  std::int64_t in_part = 0; // in the rank's part of the flat buffer
  std::int64_t count = 0;

  bool operator==(const Piece&) const = default;
};

std::vector<Piece> pieces_of(const FlatPlan& flat, int rank, int num_ranks);

} // namespace argosy::sharding
