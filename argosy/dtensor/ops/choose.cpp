#include "argosy/dtensor/ops/choose.h"

#include <algorithm>
#include <tuple>

#include "argosy/dtensor/layout/cost.h"

namespace argosy::dtensor {

namespace {

// What strategies are compared by: the members in this order, the least first
// (choose.h says why).
struct Price {
  bool pinned_moves = false;
  bool communicates = false;
  std::int64_t bytes = 0;
  int changes = 0;

  bool operator<(const Price& other) const {
    return std::tie(pinned_moves, communicates, bytes, changes) <
        std::tie(
               other.pinned_moves,
               other.communicates,
               other.bytes,
               other.changes);
  }
};

// The bytes of a rank's part, were this axis not there.
std::int64_t bytes_without(
    const Operand& operand, const Shape& mesh_shape, std::size_t axis) {
  Placements placements = operand.placements;
  placements[axis] = Replicate();
  return operand.item_bytes *
      numel(largest_local_shape(operand.shape, mesh_shape, placements));
}

class Pricing {
 public:
  Pricing(
      const Shape& mesh_shape,
      const std::vector<Operand>& operands,
      const AxisView& view)
      : mesh_shape_(mesh_shape), operands_(operands), view_(view) {}

  Price of(const Strategy& strategy) const {
    Price price;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      add_input(price, strategy, i);
    }
    for (std::size_t i = 0; i < strategy.outputs.size(); ++i) {
      if (strategy.outputs[i].is_partial()) {
        // Adds to bytes only: a Partial output does not count as communication
        // now.
        price.bytes += later_bytes(i);
      }
    }
    return price;
  }

 private:
  void add_input(Price& price, const Strategy& strategy, std::size_t i) const {
    const Operand& operand = operands_[i];
    const Placement from = operand.placements[view_.axis];
    const Placement to = strategy.inputs[i];
    const bool stays =
        operand.is_written || (operand.pinned >> view_.axis & 1) != 0;
    price.pinned_moves |= stays && to != from;
    // An in-place op must return its result where the operand is, or
    // write_back() reshards it.
    if (operand.output >= 0) {
      const auto out = static_cast<std::size_t>(operand.output);
      price.pinned_moves |= strategy.outputs[out] != from;
    }
    if (from == to) {
      return;
    }
    ++price.changes;
    // Shards that nobody has yet must be gathered later as likely as not.
    const bool is_new =
        from.is_partial() && to.is_shard() && !has_shard(strategy);
    const std::int64_t bytes = axis_bytes(
        from,
        is_new ? Placement(Replicate()) : to,
        view_.size,
        bytes_without(operand, mesh_shape_, view_.axis));
    if (bytes > 0) {
      price.communicates = true;
      price.bytes += kStartBytes + bytes;
    }
  }

  // Whether an input is sharded already as the strategy wants it.
  bool has_shard(const Strategy& strategy) const {
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (strategy.inputs[i].is_shard() &&
          strategy.inputs[i] == view_.current[i]) {
        return true;
      }
    }
    return false;
  }

  // What reducing a Partial output takes: as much as it has, twice.
  std::int64_t later_bytes(std::size_t output) const {
    const std::int64_t item = operands_.empty() ? 4 : operands_[0].item_bytes;
    return output < view_.outs.size() ? 2 * item * numel(view_.outs[output])
                                      : kStartBytes;
  }

  const Shape& mesh_shape_;
  const std::vector<Operand>& operands_;
  const AxisView& view_;
};

// Makes a shape what is left of it within the axis. False when the ranks do not
// get equally much.
bool cut_shape(Shape& shape, Placement placement, std::int64_t ranks) {
  const auto dim = static_cast<std::size_t>(placement.dim());
  if (!placement.is_shard() || dim >= shape.size()) {
    return true;
  }
  const bool even = shape[dim] % ranks == 0;
  shape[dim] = chunk_size(shape[dim], ranks);
  return even;
}

void cut_shapes(AxisView& view, const Strategy& strategy) {
  for (std::size_t i = 0; i < view.shapes.size(); ++i) {
    if (!cut_shape(view.shapes[i], strategy.inputs[i], view.size)) {
      view.uneven[i] |= std::uint64_t{1} << strategy.inputs[i].dim();
    }
  }
  for (std::size_t i = 0; i < view.outs.size(); ++i) {
    cut_shape(view.outs[i], strategy.outputs[i], view.size);
  }
}

Strategy replicated(std::size_t inputs, std::size_t outputs) {
  return {
      std::vector<Placement>(inputs, Replicate()),
      std::vector<Placement>(outputs, Replicate())};
}

} // namespace

// Costs of the usual collectives on n ranks: reduce-scatter and all-gather
// receive (n - 1) / n of the tensor, all-reduce is both, all-to-all receives an
// nth of that. Cutting or making Partial what is replicated is local.
std::int64_t axis_bytes(
    Placement from, Placement to, std::int64_t ranks, std::int64_t bytes) {
  if (from == to || from.is_replicated() || ranks == 1) {
    return 0;
  }
  const std::int64_t others = bytes - bytes / ranks;
  if (from.is_partial()) {
    return to.is_shard() ? others : 2 * others;
  }
  return to.is_shard() ? chunk_size(others, ranks) : others;
}

// Greedy: each axis takes its best strategy given those of the axes before, so
// the cost is the sum of the strategies over the axes and not their product.
// Every rank chooses for itself and must come to the same choice, so nothing
// here depends on the rank.
Choice choose(
    const Shape& mesh_shape,
    const std::vector<Operand>& operands,
    const std::vector<Shape>& outs,
    std::size_t num_outputs,
    const Offer& offer) {
  const Placements none(mesh_shape.size(), Replicate());
  Choice choice{
      std::vector<Placements>(operands.size(), none),
      std::vector<Placements>(num_outputs, none)};
  AxisView view{.outs = outs};
  for (const Operand& operand : operands) {
    view.shapes.push_back(operand.shape);
    view.uneven.push_back(0);
  }
  for (std::size_t axis = 0; axis < mesh_shape.size(); ++axis) {
    view.axis = axis;
    view.size = mesh_shape[axis];
    view.current.clear();
    for (const Operand& operand : operands) {
      view.current.push_back(operand.placements[axis]);
    }
    // Always possible, so there is always a choice. min_element() takes the
    // first of equals, so this one wins a tie.
    std::vector<Strategy> offers{replicated(operands.size(), num_outputs)};
    for (Strategy& each : offer(view)) {
      offers.push_back(std::move(each));
    }
    const Pricing pricing(mesh_shape, operands, view);
    const auto best =
        std::ranges::min_element(offers, [&](const auto& a, const auto& b) {
          return pricing.of(a) < pricing.of(b);
        });
    for (std::size_t i = 0; i < operands.size(); ++i) {
      choice.inputs[i][axis] = best->inputs[i];
    }
    for (std::size_t i = 0; i < num_outputs; ++i) {
      choice.outputs[i][axis] = best->outputs[i];
    }
    // The next axis divides what this one leaves of each tensor.
    cut_shapes(view, *best);
  }
  return choice;
}

} // namespace argosy::dtensor
