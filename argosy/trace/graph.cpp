#include "argosy/trace/graph.h"

#include <algorithm>
#include <set>

namespace argosy::trace {

namespace {

using Kind = Value::Kind;

// Whether each memory has the same contents in every run. The memories of
// inputs and states vary, and so do those of constants that are written. A node
// that is random or uses a varying memory makes all that it makes or writes
// vary. This is repeated until nothing changes; every pass but the last marks a
// memory, so there are at most as many passes as memories. It goes by memory,
// not by value, since a write to one view shows in all of them.
class FixedMemories {
 public:
  explicit FixedMemories(const Graph& graph) : graph_(graph) {
    int size = 0;
    for (const Value& value : graph.values) {
      size = std::max(size, value.memory + 1);
    }
    fixed_.assign(at(size), true);
    for (const Value& value : graph.values) {
      if (value.kind == Kind::kInput || value.kind == Kind::kState) {
        set_varying(value.memory);
      }
    }
    // A constant that is written carries information from run to run.
    for (const Node& node : graph.nodes) {
      for (const int value : node.writes) {
        if (graph.value(value).kind == Kind::kConstant) {
          set_varying(graph.value(value).memory);
        }
      }
    }
    while (spread()) { // a later write changes what an earlier node reads
    }
  }

  bool has(int value) const { return fixed_[at(graph_.value(value).memory)]; }

 private:
  void set_varying(int memory) { fixed_[at(memory)] = false; }

  bool spread() {
    bool changed = false;
    for (const Node& node : graph_.nodes) {
      const bool is_fixed = !node.is_random &&
          std::ranges::all_of(node.uses, [&](int value) { return has(value); });
      if (is_fixed) {
        continue;
      }
      for (const auto* values : {&node.makes, &node.writes}) {
        for (const int value : *values) {
          changed = changed || has(value);
          set_varying(graph_.value(value).memory);
        }
      }
    }
    return changed;
  }

  const Graph& graph_;
  std::vector<bool> fixed_;
};

} // namespace

std::vector<bool> fixed_values(const Graph& graph) {
  const FixedMemories memories(graph);
  std::vector<bool> fixed;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    fixed.push_back(memories.has(static_cast<int>(i)));
  }
  return fixed;
}

// One pass in recorded order. `sources` has, by value, the states that it is
// derived from, provided that it depends on nothing else that varies; it is
// empty for all other values.
std::vector<std::vector<int>> touched_states(const Graph& graph) {
  const std::vector<bool> fixed = fixed_values(graph);
  std::vector<std::vector<int>> sources(graph.values.size());
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].kind == Kind::kState) {
      sources[i] = {static_cast<int>(i)};
    }
  }
  std::vector<std::vector<int>> touched;
  for (const Node& node : graph.nodes) {
    std::set<int> states;
    bool of_states_alone = !node.is_random;
    for (const int value : node.uses) {
      const auto& of_value = sources[at(value)];
      states.insert(of_value.begin(), of_value.end());
      of_states_alone =
          of_states_alone && (!of_value.empty() || fixed[at(value)]);
    }
    touched.emplace_back(states.begin(), states.end());
    if (of_states_alone) {
      for (const int value : node.makes) {
        sources[at(value)] = touched.back();
      }
    }
  }
  return touched;
}

// One pass backward over the nodes. A memory that is needed once stays needed
// for all earlier nodes. That may keep a node whose result is overwritten, but
// never drops one that counts.
std::vector<bool> needed_nodes(const Graph& graph, int value) {
  std::set<int> memories{graph.value(value).memory}; // that are needed
  const auto is_needed = [&](int each) {
    return memories.count(graph.value(each).memory) > 0;
  };
  std::vector<bool> needed(graph.nodes.size(), false);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    needed[i] = std::ranges::any_of(node.makes, is_needed) ||
        std::ranges::any_of(node.writes, is_needed);
    for (const int used : node.uses) {
      if (needed[i]) {
        memories.insert(graph.value(used).memory);
      }
    }
  }
  return needed;
}

std::vector<int> makers(const Graph& graph) {
  std::vector<int> by_value(graph.values.size(), -1);
  for (int i = 0; i < graph.num_nodes(); ++i) {
    for (const int value : graph.node(i).makes) {
      by_value[at(value)] = i;
    }
  }
  return by_value;
}

std::vector<int> last_uses(const Graph& graph) {
  // A value that nothing uses is last needed by the node that makes it.
  std::vector<int> by_value = makers(graph);
  for (int i = 0; i < graph.num_nodes(); ++i) {
    for (const int value : graph.node(i).uses) {
      by_value[at(value)] = i;
    }
  }
  for (const int value : graph.outputs) {
    by_value[at(value)] = graph.num_nodes();
  }
  return by_value;
}

} // namespace argosy::trace
