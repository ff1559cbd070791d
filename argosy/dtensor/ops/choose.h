#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "argosy/dtensor/layout/layout.h"
#include "argosy/dtensor/layout/placement.h"

// Which of the ways that a rule offers is taken. Pure.
namespace argosy::dtensor {

// One way in which the ranks of one mesh axis share an op: what they hold of
// each input, and what each output then is.
struct Strategy {
  std::vector<Placement> inputs;
  std::vector<Placement> outputs;

  bool operator==(const Strategy&) const = default;
};

struct Operand {
  Shape shape;
  std::int64_t item_bytes = 4;
  Placements placements;   // as it is now
  std::uint8_t pinned = 0; // axes, as bits, on which it should stay so
  bool is_written = false; // so should stay where it is
  int output = -1;         // that is the same tensor, or -1
};

// What a rule sees of the mesh: one axis, within those before it.
struct AxisView {
  std::size_t axis = 0;
  std::int64_t size = 1;
  std::vector<Shape> shapes;      // of the inputs, as the outer axes leave them
  std::vector<Shape> outs;        // of the outputs; empty where unknown
  std::vector<Placement> current; // of the inputs on this axis
  // For each input the dims that outer axes have cut unevenly, as bits: the
  // shapes are those of the first ranks then, and others have less.
  std::vector<std::uint64_t> uneven;
};

using Offer = std::function<std::vector<Strategy>(const AxisView&)>;

struct Choice {
  std::vector<Placements> inputs;
  std::vector<Placements> outputs;

  bool operator==(const Choice&) const = default;
};

// Decides axis by axis, from the first. All on all ranks is always possible.
//
// What needs no communication now is taken before all else, even if it leaves a
// Partial to be reduced later: whoever uses that may want a part of it only.
// Otherwise bytes decide, with those that a Partial output costs later. A
// Partial input becomes a Shard only where another input is one already. Of
// equals, that which changes the fewest inputs, then the first offered.
//
// An operand that is written or pinned stays where it is if any strategy lets
// it.
Choice choose(
    const Shape& mesh_shape,
    const std::vector<Operand>& operands,
    const std::vector<Shape>& outs,
    std::size_t num_outputs,
    const Offer& offer);

// Bytes that a rank receives when an axis of `ranks` changes one placement of a
// tensor that has `bytes` without that axis.
std::int64_t axis_bytes(
    Placement from, Placement to, std::int64_t ranks, std::int64_t bytes);

} // namespace argosy::dtensor
