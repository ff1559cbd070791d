#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace argosy::trace {

// Recorded ops as data: a straight line of ops (nodes) on numbered values. No
// torch headers, so that what to do with them can be decided, inspected and
// tested without tensors.

// A value or node by its number.
constexpr std::size_t at(int number) {
  return static_cast<std::size_t>(number);
}

struct Value {
  enum class Kind : std::uint8_t {
    kInput,    // given to each run
    kState,    // a parameter or buffer of the module
    kConstant, // any other tensor that existed before
    kResult,   // made by a node
  };

  Kind kind = Kind::kResult;
  std::vector<std::string> names; // of a state; several if modules share it
  std::int64_t bytes = 0;
  int memory = 0; // equal numbers: views of the same memory

  bool operator==(const Value&) const = default;
};

struct Node {
  std::string op;
  std::vector<int> uses;   // values, including those that it writes
  std::vector<int> makes;  // results that are new values
  std::vector<int> writes; // values whose memory it changes
  bool is_random = false;
  double work = 0; // estimated multiply-adds

  bool operator==(const Node&) const = default;
};

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<int> inputs;
  std::vector<int> outputs;

  const Value& value(int number) const { return values[at(number)]; }
  const Node& node(int number) const { return nodes[at(number)]; }
  int num_nodes() const { return static_cast<int>(nodes.size()); }

  bool operator==(const Graph&) const = default;
};

// By value: whether it is the same in every run, independent of inputs, states
// and random numbers (a causal mask, for example).
std::vector<bool> fixed_values(const Graph& graph);

// By node: the states that it works on, directly or through values derived only
// from states, such as weight.t() or a cast weight.
std::vector<std::vector<int>> touched_states(const Graph& graph);

// By node: whether `value` depends on it. Nodes that only read are left out.
std::vector<bool> needed_nodes(const Graph& graph, int value);

// By value: the node that makes it; -1 if it exists from the beginning.
std::vector<int> makers(const Graph& graph);

// By value: the last node that uses or makes it; the number of nodes for
// outputs, -1 if nothing uses it.
std::vector<int> last_uses(const Graph& graph);

} // namespace argosy::trace
