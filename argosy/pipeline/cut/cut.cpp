#include "argosy/pipeline/cut/cut.h"

#include <algorithm>
#include <set>

#include "argosy/common/error.h"
#include "argosy/pipeline/cut/balanced_cuts.h"
#include "argosy/pipeline/cut/cutter.h"

namespace argosy::pipeline {

namespace {

// By first name of a state: the first part that uses it.
std::map<std::string, int> owners(const Graph& graph, const Cuts& cuts) {
  std::map<std::string, int> by_name;
  for (std::size_t i = 0; i < cuts.parts.size(); ++i) {
    for (const int state : cuts.parts[i].states) {
      by_name.emplace(graph.value(state).names[0], static_cast<int>(i));
    }
  }
  return by_name;
}

// Usually true for other shapes, unless forward branches on them.
bool has_same_ops(const Graph& a, const Graph& b) {
  return std::equal(
      a.nodes.begin(),
      a.nodes.end(),
      b.nodes.begin(),
      b.nodes.end(),
      [](const Node& x, const Node& y) { return x.op == y.op; });
}

// The positions after the first uses of the states of parts up to `part` and
// before those of later parts.
Window window_between(
    const Cutter& cutter, const std::map<std::string, int>& owners, int part) {
  Window window{1, cutter.graph().num_nodes() - 1};
  for (std::size_t i = 0; i < cutter.graph().values.size(); ++i) {
    const Value& value = cutter.graph().values[i];
    const int touch = cutter.first_touch(static_cast<int>(i));
    const auto owner =
        value.names.empty() ? owners.end() : owners.find(value.names[0]);
    if (touch == kNoTouch || owner == owners.end()) {
      continue;
    }
    if (owner->second <= part) {
      window.first = std::max(window.first, touch + 1);
    } else {
      window.last = std::min(window.last, touch);
    }
  }
  ARGOSY_CHECK(
      window.first <= window.last,
      "[pipeline.cut] for these inputs forward uses the layers in another "
      "order than for the first, at the end of part ",
      part);
  return window;
}

} // namespace

std::vector<int> Part::nodes() const {
  std::vector<int> all = repeated;
  for (int node = begin; node < end; ++node) {
    all.push_back(node);
  }
  return all;
}

Cuts cut(const Graph& graph, const SplitSpec& points) {
  const Cutter cutter(graph);
  std::vector<int> places;
  std::string before = "the beginning";
  for (const auto& [layer, point] : points) {
    const int place =
        cutter.place(cutter.window(layer, point), point == SplitPoint::END);
    ARGOSY_CHECK(
        places.empty() || places.back() < place,
        "[pipeline.cut] the cut at {} does not come after the one at {}; "
        "expected points in the order of forward, with work in between",
        layer,
        before);
    places.push_back(place);
    before = layer;
  }
  return cutter.parts(places);
}

Cuts cut_evenly(
    const Graph& graph, int parts, const std::vector<double>& weights) {
  ARGOSY_CHECK(
      parts >= 1 && parts <= graph.num_nodes(),
      "[pipeline.cut] {} parts of a forward of {} ops",
      parts,
      graph.num_nodes());
  ARGOSY_CHECK(
      weights.size() == graph.nodes.size(),
      "[pipeline.cut] {} weights, expected one for each of {} ops",
      weights.size(),
      graph.num_nodes());
  const Cutter cutter(graph);
  std::vector<double> costs;
  for (const std::int64_t bytes : cutter.bytes()) {
    const bool is_torn =
        cutter.torn_memory(static_cast<int>(costs.size())) >= 0;
    costs.push_back(is_torn ? kNoCut : static_cast<double>(bytes));
  }
  return cutter.parts(balanced_cuts(weights, costs, parts));
}

Cuts cut_at(const Graph& graph, const std::vector<int>& places) {
  return Cutter(graph).parts(places);
}

std::vector<double> work_weights(const Graph& graph) {
  std::vector<double> weights;
  for (const Node& node : graph.nodes) {
    weights.push_back(node.work);
  }
  return weights;
}

std::vector<double> state_weights(const Graph& graph) {
  const auto touched = touched_states(graph);
  std::set<int> seen;
  std::vector<double> weights;
  for (const auto& states : touched) {
    double bytes = 0;
    for (const int state : states) {
      // A shared state counts for the part that uses it first, its owner.
      if (seen.insert(state).second) {
        bytes += static_cast<double>(graph.value(state).bytes);
      }
    }
    weights.push_back(bytes);
  }
  return weights;
}

Cuts cut_alike(const Graph& graph, const Graph& like, const Cuts& cuts) {
  const Cutter cutter(graph);
  // With equal ops, the same positions apply; otherwise states decide.
  const bool is_same = has_same_ops(graph, like);
  const auto by_name = owners(like, cuts);
  std::vector<int> places;
  for (std::size_t i = 0; i + 1 < cuts.parts.size(); ++i) {
    places.push_back(
        is_same
            ? cuts.parts[i].end
            : cutter.place(
                  window_between(cutter, by_name, static_cast<int>(i)), true));
  }
  return cutter.parts(places);
}

std::vector<std::int64_t> crossing_bytes(const Graph& graph) {
  return Cutter(graph).bytes();
}

} // namespace argosy::pipeline
