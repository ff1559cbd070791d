#include "argosy/pipeline/cut/cutter.h"

#include <algorithm>
#include <numeric>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::pipeline {

namespace {

using Kind = Value::Kind;

bool is_within(const std::string& state, const std::string& layer) {
  return state.size() > layer.size() && state.starts_with(layer) &&
      state[layer.size()] == '.';
}

} // namespace

Cutter::Cutter(const Graph& graph)
    : graph_(graph),
      fixed_(fixed_values(graph)),
      makers_(makers(graph)),
      last_uses_(last_uses(graph)),
      touched_(touched_states(graph)),
      first_touches_(graph.values.size(), kNoTouch) {
  // Backwards, so that the first use wins.
  for (int node = graph.num_nodes() - 1; node >= 0; --node) {
    for (const int state : touched_[at(node)]) {
      first_touches_[at(state)] = node;
    }
  }
  for (int node = 0; node < graph.num_nodes(); ++node) {
    for (const int value : graph.node(node).writes) {
      last_writes_[graph.value(value).memory] = node;
    }
  }
}

std::vector<std::string> Cutter::layers() const {
  std::set<std::string> names;
  for (const Value& value : graph_.values) {
    for (std::string name : value.names) {
      for (auto dot = name.rfind('.'); dot != std::string::npos;
           dot = name.rfind('.')) {
        name.resize(dot);
        names.insert(name);
      }
    }
  }
  return {names.begin(), names.end()};
}

// The graph knows no layers, only ops. The states whose names lie within a
// layer locate it: those that forward uses.
std::set<int> Cutter::states_of(const std::string& layer) const {
  std::set<int> states;
  bool is_known = false;
  for (std::size_t i = 0; i < graph_.values.size(); ++i) {
    for (const std::string& name : graph_.values[i].names) {
      if (is_within(name, layer)) {
        is_known = true;
        if (first_touches_[i] != kNoTouch) {
          states.insert(static_cast<int>(i));
        }
      }
    }
  }
  const auto near = is_known ? std::nullopt : nearest(layer, layers());
  ARGOSY_CHECK(
      is_known,
      "[pipeline.cut] no layer {} with parameters or buffers, which locate it "
      "in the graph{}",
      layer,
      near ? str("; is it ", *near, "?")
           : str("; there are ", join(layers(), ", ")));
  ARGOSY_CHECK(
      !states.empty(),
      "[pipeline.cut] forward uses no parameter or buffer of {}, which locate "
      "it in the graph",
      layer);
  return states;
}

bool Cutter::touches_others(int node, const std::set<int>& own) const {
  const auto& states = touched_[at(node)];
  return std::ranges::any_of(
      states, [&](int state) { return own.count(state) == 0; });
}

// From the first use of the layer's last state, the layer extends over nodes
// that touch only its own states. The window begins after the last of these,
// and ends where a node touches the state of another layer.
Window Cutter::window_after(const std::set<int>& own) const {
  int last = 0;
  for (const int state : own) {
    last = std::max(last, first_touches_[at(state)]);
  }
  int next = last + 1;
  for (; next < graph_.num_nodes() && !touches_others(next, own); ++next) {
    if (!touched_[at(next)].empty()) {
      last = next;
    }
  }
  return {last + 1, std::min(next, graph_.num_nodes() - 1)};
}

// The window goes back over nodes without states, which belong to no layer. It
// ends at the layer's first node and leaves at least one node before the cut.
Window Cutter::window_before(const std::set<int>& own) const {
  int first = kNoTouch;
  for (const int state : own) {
    first = std::min(first, first_touches_[at(state)]);
  }
  int begin = first;
  while (begin > 0 && touched_[at(begin - 1)].empty()) {
    --begin;
  }
  return {std::max(begin, 1), first};
}

Window Cutter::window(const std::string& layer, SplitPoint point) const {
  const std::set<int> own = states_of(layer);
  const Window window =
      point == SplitPoint::END ? window_after(own) : window_before(own);
  ARGOSY_CHECK(
      window.first <= window.last,
      "[pipeline.cut] nothing ",
      point == SplitPoint::END ? "comes after " : "comes before ",
      layer,
      ": there would be a part without work");
  return window;
}

// States and constants never cross: each part holds those that it uses. Nor do
// fixed values, which repeated() computes again.
std::vector<int> Cutter::crossing(int place) const {
  std::vector<int> values;
  for (std::size_t i = 0; i < graph_.values.size(); ++i) {
    const Kind kind = graph_.values[i].kind;
    if ((kind == Kind::kInput || kind == Kind::kResult) && !fixed_[i] &&
        makers_[i] < place && last_uses_[i] >= place) {
      values.push_back(static_cast<int>(i));
    }
  }
  return values;
}

int Cutter::torn_memory(int place) const {
  std::set<int> memories;
  for (const int value : crossing(place)) {
    const int memory = graph_.value(value).memory;
    const auto write = last_writes_.find(memory);
    // A second view of the same memory crosses: on the other side the views
    // would be separate tensors, and a write to one would not show in the
    // other.
    if (!memories.insert(memory).second && write != last_writes_.end() &&
        write->second >= place) {
      return memory;
    }
  }
  return -1;
}

// The bytes of crossing() for all positions at once, in O(values + nodes).
std::vector<std::int64_t> Cutter::bytes() const {
  // Difference array: each value adds its bytes from its maker to its last use.
  std::vector<std::int64_t> changes(graph_.nodes.size() + 2, 0);
  for (std::size_t i = 0; i < graph_.values.size(); ++i) {
    const Kind kind = graph_.values[i].kind;
    if ((kind == Kind::kInput || kind == Kind::kResult) && !fixed_[i] &&
        last_uses_[i] > makers_[i]) {
      changes[at(makers_[i] + 1)] += graph_.values[i].bytes;
      changes[at(last_uses_[i] + 1)] -= graph_.values[i].bytes;
    }
  }
  std::partial_sum(changes.begin(), changes.end(), changes.begin());
  changes.pop_back();
  return changes;
}

int Cutter::place(const Window& window, bool prefer_last) const {
  const std::vector<std::int64_t> crossing = bytes();
  int best = -1;
  for (int i = window.first; i <= window.last; ++i) {
    const bool is_better = best < 0 || crossing[at(i)] < crossing[at(best)] ||
        (prefer_last && crossing[at(i)] == crossing[at(best)]);
    // Checked last, since it walks all values.
    if (is_better && torn_memory(i) < 0) {
      best = i;
    }
  }
  ARGOSY_CHECK(
      best >= 0,
      "[pipeline.cut] several views of a memory cross the cut before {}, and "
      "it is written in place after it: they would become separate tensors; "
      "cut elsewhere, or write to a new tensor",
      graph_.node(window.last).op);
  return best;
}

// Walks backwards from `begin`, collecting the nodes that make or change
// something that is needed.
std::vector<int> Cutter::repeated(int begin, int end) const {
  std::set<int> values;
  std::set<int> memories;
  const auto need = [&](int value) {
    if (fixed_[at(value)] && graph_.value(value).kind == Kind::kResult) {
      values.insert(value);
      memories.insert(graph_.value(value).memory);
    }
  };
  for (int node = begin; node < end; ++node) {
    std::ranges::for_each(graph_.node(node).uses, need);
  }
  // No node uses the outputs; the last part returns them.
  if (end == graph_.num_nodes()) {
    std::ranges::for_each(graph_.outputs, need);
  }
  std::vector<int> nodes;
  // Nodes use only what earlier nodes make, so one walk finds all.
  for (int i = begin - 1; i >= 0; --i) {
    const Node& node = graph_.node(i);
    const bool is_needed =
        std::ranges::any_of(
            node.makes, [&](int value) { return values.count(value) > 0; }) ||
        std::ranges::any_of(node.writes, [&](int value) {
          return memories.count(graph_.value(value).memory) > 0;
        });
    if (is_needed) {
      nodes.insert(nodes.begin(), i);
      std::ranges::for_each(node.uses, need);
    }
  }
  return nodes;
}

std::vector<int> Cutter::states(const std::vector<int>& nodes) const {
  std::set<int> used;
  const auto add = [&](int value) {
    if (graph_.value(value).kind == Kind::kState) {
      used.insert(value);
    }
  };
  for (const int node : nodes) {
    std::ranges::for_each(graph_.node(node).uses, add);
  }
  // The last part also needs states that the module returns as they are.
  if (!nodes.empty() && nodes.back() == graph_.num_nodes() - 1) {
    std::ranges::for_each(graph_.outputs, add);
  }
  return {used.begin(), used.end()};
}

Part Cutter::part(int begin, int end) const {
  Part part{.begin = begin, .end = end, .repeated = repeated(begin, end)};
  // Values that only later parts use are among them: crossing() contains
  // everything alive at the border.
  part.receives = begin == 0 ? graph_.inputs : crossing(begin);
  part.sends = end == graph_.num_nodes() ? graph_.outputs : crossing(end);
  part.states = states(part.nodes());
  return part;
}

// If several parts used a written state, each would have its own copy and see
// only its own writes.
void Cutter::check_written_states(const Cuts& cuts) const {
  std::map<int, std::string> written; // by memory
  for (const Value& value : graph_.values) {
    if (value.kind == Kind::kState || value.kind == Kind::kConstant) {
      if (last_writes_.count(value.memory) > 0) {
        written[value.memory] =
            value.names.empty() ? "a tensor outside" : value.names[0];
      }
    }
  }
  std::map<int, std::size_t> users; // by memory: the part that uses it
  for (std::size_t i = 0; i < cuts.parts.size(); ++i) {
    for (const int node : cuts.parts[i].nodes()) {
      for (const int value : graph_.node(node).uses) {
        const int memory = graph_.value(value).memory;
        ARGOSY_CHECK(
            written.count(memory) == 0 ||
                users.emplace(memory, i).first->second == i,
            "[pipeline.cut] {} is written in forward and used in parts {} and "
            "{}, which would each have one of their own",
            written[memory],
            users[memory],
            i);
      }
    }
  }
}

Cuts Cutter::parts(const std::vector<int>& places) const {
  Cuts cuts;
  int begin = 0;
  for (const int place : places) {
    cuts.parts.push_back(part(begin, place));
    begin = place;
  }
  cuts.parts.push_back(part(begin, graph_.num_nodes()));
  check_written_states(cuts);
  std::map<std::string, std::vector<int>> users;
  for (std::size_t i = 0; i < cuts.parts.size(); ++i) {
    for (const int state : cuts.parts[i].states) {
      // All names of a tied weight belong to one value; the first stands for
      // it.
      users[graph_.value(state).names[0]].push_back(static_cast<int>(i));
    }
  }
  for (const auto& [name, parts] : users) {
    if (parts.size() > 1) {
      cuts.shared[name] = parts;
    }
  }
  return cuts;
}

} // namespace argosy::pipeline
