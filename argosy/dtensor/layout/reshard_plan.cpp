#include "argosy/dtensor/layout/reshard_plan.h"

#include <algorithm>
#include <map>
#include <ostream>
#include <queue>
#include <sstream>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/dtensor/layout/block_transfers.h"
#include "argosy/dtensor/layout/cost.h"

namespace argosy::dtensor {

namespace {

// Counts in quarters of a byte, so that the last bits break ties between plans
// that communicate equally: fewer local steps win, and a collective with blocks
// of equal shape wins over one that has to pack blocks of any shape.
std::int64_t cost_of(const ReshardStep& step) {
  const bool packs =
      step.kind == StepKind::AllToAll || step.kind == StepKind::Transfer;
  return is_local(step.kind) ? 1
                             : 4 * (kStartBytes + step.bytes) + (packs ? 1 : 0);
}

// The steps that lead on from one state of the tensor, towards the target. A
// state is the placements on one mesh.
class Steps {
 public:
  Steps(
      const Shape& global,
      std::int64_t item_bytes,
      const ProcessMesh& mesh,
      const DistAttr& target)
      : global_(global),
        item_bytes_(item_bytes),
        mesh_(mesh),
        target_(target),
        same_mesh_(mesh == target.mesh) {}

  std::vector<ReshardStep> from(const Placements& state) const {
    std::vector<ReshardStep> steps;
    add_reductions(steps, state);
    if (same_mesh_) {
      add_exchanges(steps, state);
      add_partials(steps, state);
    }
    return steps;
  }

  // Everything at once, to the other mesh, where that can be done.
  std::optional<ReshardStep> transfer(const Placements& state) const {
    // Transfer adds nothing up, so a Partial crosses only to the same axis of a
    // mesh of the same shape; any other must be reduced before.
    Placements arrival = target_.placements;
    const bool same_shape = mesh_.shape() == target_.mesh.shape();
    for (std::size_t axis = 0; axis < state.size(); ++axis) {
      if (state[axis].is_partial() &&
          !(same_shape && state[axis] == arrival[axis])) {
        return std::nullopt;
      }
    }
    // The value arrives whole where the target wants a Partial that is not
    // carried over; plan_across() adds the local MakePartial.
    for (std::size_t axis = 0; axis < arrival.size(); ++axis) {
      const bool carried = same_shape && state[axis] == arrival[axis];
      if (arrival[axis].is_partial() && !carried) {
        arrival[axis] = Replicate();
      }
    }
    const DistAttr from{mesh_, state};
    const DistAttr to{target_.mesh, arrival};
    return ReshardStep{
        StepKind::Transfer, from, to, {}, most_lacking(from, to)};
  }

 private:
  void add_reductions(
      std::vector<ReshardStep>& steps, const Placements& state) const {
    // One all-reduce over several axes starts once, but it can apply one op
    // only.
    std::map<comm::ReduceOp, std::vector<int>> together;
    for (std::size_t axis = 0; axis < state.size(); ++axis) {
      if (!state[axis].is_partial() || stays_partial(state, axis)) {
        continue;
      }
      steps.push_back(all_reduce(state, {static_cast<int>(axis)}));
      together[state[axis].op()].push_back(static_cast<int>(axis));
      for (std::size_t dim = 0; dim < global_.size(); ++dim) {
        // A later axis that cuts `dim` holds chunks of the uncut dim, which
        // would no longer be chunks of this axis's chunk.
        if (is_innermost(state, axis, static_cast<int>(dim))) {
          steps.push_back(reduce_scatter(state, axis, static_cast<int>(dim)));
        }
      }
    }
    for (const auto& [op, axes] : together) {
      if (axes.size() > 1) {
        steps.push_back(all_reduce(state, axes));
      }
    }
  }

  // A Partial that the target has too is left alone; on another mesh the
  // target's axes say nothing about those of this one.
  bool stays_partial(const Placements& state, std::size_t axis) const {
    return same_mesh_ && state[axis] == target_.placements[axis];
  }

  ReshardStep all_reduce(
      const Placements& state, const std::vector<int>& axes) const {
    Placements to = state;
    std::int64_t ranks = 1;
    for (const int axis : axes) {
      to[static_cast<std::size_t>(axis)] = Replicate();
      ranks *= mesh_.shape()[static_cast<std::size_t>(axis)];
    }
    const std::int64_t elements =
        numel(largest_local_shape(global_, mesh_.shape(), state));
    return step(
        StepKind::AllReduce,
        state,
        to,
        axes,
        2 * (ranks - 1) * chunk_size(elements, ranks));
  }

  ReshardStep reduce_scatter(
      const Placements& state, std::size_t axis, int dim) const {
    Placements to = state;
    to[axis] = Shard(dim);
    const std::int64_t elements =
        numel(largest_local_shape(global_, mesh_.shape(), to));
    return step(
        StepKind::ReduceScatter,
        state,
        to,
        {static_cast<int>(axis)},
        (mesh_.shape()[axis] - 1) * elements);
  }

  // Each axis alone, and all that can at once: cutting before a reduction, or
  // gathering after it, is cheaper.
  void add_exchanges(
      std::vector<ReshardStep>& steps, const Placements& state) const {
    Placements all = state;
    for (std::size_t axis = 0; axis < state.size(); ++axis) {
      const Placement wanted = target_.placements[axis];
      if (state[axis].is_partial() || wanted.is_partial() ||
          state[axis] == wanted) {
        continue;
      }
      Placements one = state;
      one[axis] = wanted;
      all[axis] = wanted;
      steps.push_back(exchange(state, one));
    }
    if (all != state) {
      steps.push_back(exchange(state, all));
    }
  }

  ReshardStep exchange(const Placements& state, const Placements& to) const {
    const std::vector<int> axes = crossed_axes(state, to);
    if (axes.empty()) {
      return step(StepKind::Slice, state, to, axes, 0);
    }
    return {
        is_gather(state, to, axes) ? StepKind::AllGather : StepKind::AllToAll,
        {mesh_, state},
        {mesh_, to},
        axes,
        most_lacking({mesh_, state}, {mesh_, to})};
  }

  // Equal chunks of one axis become whole, and nothing else changes.
  bool is_gather(
      const Placements& state,
      const Placements& to,
      const std::vector<int>& axes) const {
    const auto axis = static_cast<std::size_t>(axes.front());
    Placements gathered = state;
    gathered[axis] = Replicate();
    return axes.size() == 1 && gathered == to &&
        is_even(global_, mesh_.shape(), state);
  }

  void add_partials(
      std::vector<ReshardStep>& steps, const Placements& state) const {
    Placements to = state;
    std::vector<int> axes;
    for (std::size_t axis = 0; axis < state.size(); ++axis) {
      if (state[axis].is_replicated() &&
          target_.placements[axis].is_partial()) {
        to[axis] = target_.placements[axis];
        axes.push_back(static_cast<int>(axis));
      }
    }
    if (!axes.empty()) {
      steps.push_back(step(StepKind::MakePartial, state, to, axes, 0));
    }
    // A dim that is to be Partial may be sharded still.
    for (std::size_t axis = 0; axis < state.size(); ++axis) {
      if (target_.placements[axis].is_partial() && state[axis].is_shard()) {
        Placements gathered = state;
        gathered[axis] = Replicate();
        steps.push_back(exchange(state, gathered));
      }
    }
  }

  ReshardStep step(
      StepKind kind,
      const Placements& from,
      const Placements& to,
      const std::vector<int>& axes,
      std::int64_t elements) const {
    return {kind, {mesh_, from}, {mesh_, to}, axes, elements * item_bytes_};
  }

  std::int64_t most_lacking(const DistAttr& from, const DistAttr& to) const {
    std::int64_t most = 0;
    for (const int rank : to.mesh.process_ids()) {
      most = std::max(most, lacking(global_, from, to, rank));
    }
    return most * item_bytes_;
  }

  const Shape& global_;
  const std::int64_t item_bytes_;
  const ProcessMesh& mesh_;
  const DistAttr& target_;
  const bool same_mesh_;
};

// Shortest paths (Dijkstra) from one state to all that can be reached. Per axis
// a state holds what it began with, Replicate, the target's placement, or, if
// it began as Partial, a Shard of some dim; so for meshes of a few axes there
// are tens to hundreds of states, and MeshState keeps plans
// within its mesh.
//
// Each rank plans for itself and the plans must agree, or collectives would not
// match. So nothing here depends on the rank: entries are popped by cost, then
// by code, and of equal paths the first found stays.
class Search {
 public:
  Search(const Steps& steps, const Placements& start) : steps_(steps) {
    visit({}, start, 0);
    while (!queue_.empty()) {
      const auto [cost, code] = queue_.top();
      queue_.pop();
      const Visit visited = visits_.at(code);
      // A cheaper path to this state was found after this entry was queued.
      if (cost > visited.cost) {
        continue;
      }
      for (ReshardStep& next : steps_.from(visited.state)) {
        ReshardPlan plan = visited.plan;
        const Placements state = next.to.placements;
        const std::int64_t total = cost + cost_of(next);
        plan.steps.push_back(std::move(next));
        visit(std::move(plan), state, total);
      }
    }
  }

  struct Visit {
    Placements state;
    ReshardPlan plan;
    std::int64_t cost;
  };

  // By the code of the state, so that the order is the same on all ranks.
  const std::map<std::uint64_t, Visit>& visits() const { return visits_; }

 private:
  void visit(ReshardPlan plan, const Placements& state, std::int64_t cost) {
    const auto found = visits_.find(state.code());
    if (found != visits_.end() && found->second.cost <= cost) {
      return;
    }
    visits_.insert_or_assign(state.code(), Visit{state, std::move(plan), cost});
    queue_.emplace(cost, state.code());
  }

  using Entry = std::pair<std::int64_t, std::uint64_t>;

  const Steps& steps_;
  std::map<std::uint64_t, Visit> visits_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

ReshardPlan plan_within(
    const Shape& global,
    std::int64_t item_bytes,
    const DistAttr& from,
    const DistAttr& to) {
  const Steps steps(global, item_bytes, from.mesh, to);
  const Search search(steps, from.placements);
  const auto found = search.visits().find(to.placements.code());
  ARGOSY_ASSERT(found != search.visits().end(), "{} to {}", from, to);
  return found->second.plan;
}

// Reduces on the source mesh where that makes the transfer possible or cheaper,
// transfers once, then makes the missing Partials on the target mesh. The last
// part is local, so the search for the best transfer leaves it out.
ReshardPlan plan_across(
    const Shape& global,
    std::int64_t item_bytes,
    const DistAttr& from,
    const DistAttr& to) {
  const Steps steps(global, item_bytes, from.mesh, to);
  const Search search(steps, from.placements);
  ReshardPlan best;
  for (const auto& [code, visit] : search.visits()) {
    auto last = steps.transfer(visit.state);
    if (!last) {
      continue;
    }
    ReshardPlan plan = visit.plan;
    plan.steps.push_back(std::move(*last));
    if (best.steps.empty() || plan.cost() < best.cost()) {
      best = std::move(plan);
    }
  }
  ARGOSY_ASSERT(!best.steps.empty(), "{} to {}", from, to);
  const ReshardPlan rest =
      plan_within(global, item_bytes, best.steps.back().to, to);
  best.steps.insert(best.steps.end(), rest.steps.begin(), rest.steps.end());
  return best;
}

} // namespace

std::int64_t ReshardPlan::bytes() const {
  std::int64_t sum = 0;
  for (const ReshardStep& step : steps) {
    sum += step.bytes;
  }
  return sum;
}

int ReshardPlan::num_collectives() const {
  return static_cast<int>(std::ranges::count_if(
      steps, [](const ReshardStep& step) { return !is_local(step.kind); }));
}

std::int64_t ReshardPlan::cost() const {
  std::int64_t sum = 0;
  for (const ReshardStep& step : steps) {
    sum += cost_of(step);
  }
  return sum;
}

ReshardPlan plan_reshard(
    const Shape& global,
    std::int64_t item_bytes,
    const DistAttr& from,
    const DistAttr& to) {
  return from.mesh == to.mesh ? plan_within(global, item_bytes, from, to)
                              : plan_across(global, item_bytes, from, to);
}

bool is_local(StepKind kind) {
  return kind == StepKind::Slice || kind == StepKind::MakePartial;
}

std::string to_string(StepKind kind) {
  switch (kind) {
    case StepKind::Slice:
      return "slice";
    case StepKind::MakePartial:
      return "make_partial";
    case StepKind::AllGather:
      return "all_gather";
    case StepKind::AllToAll:
      return "all_to_all";
    case StepKind::AllReduce:
      return "all_reduce";
    case StepKind::ReduceScatter:
      return "reduce_scatter";
    case StepKind::Transfer:
      return "transfer";
  }
  return "?";
}

std::string to_string(const ReshardStep& step) {
  std::ostringstream text;
  text << to_string(step.kind);
  for (const int axis : step.axes) {
    text << (axis == step.axes.front() ? "(axis " : ", ") << axis;
  }
  text << (step.axes.empty() ? ": " : "): ") << step.from.placements << " -> "
       << step.to.placements;
  if (!is_local(step.kind)) {
    text << ", " << step.bytes << " bytes";
  }
  return text.str();
}

std::string to_string(const ReshardPlan& plan) {
  std::vector<std::string> lines;
  for (const ReshardStep& step : plan.steps) {
    lines.push_back(to_string(step));
  }
  return lines.empty() ? "nothing to do" : join(lines, "\n");
}

std::ostream& operator<<(std::ostream& out, const ReshardPlan& plan) {
  return out << to_string(plan);
}

} // namespace argosy::dtensor
