#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace argosy::trace {

// A run of ops as data: a straight line of ops, the nodes, on numbered values.
// Torch-free, so that what to do with it can be decided, printed and tested
// without tensors.

// A value or node by its number.
constexpr std::size_t at(int number) {
  return static_cast<std::size_t>(number);
}

struct Value {
  enum class Kind : std::uint8_t {
    kInput,    // given to each run
    kState,    // a parameter or buffer of the module
    kConstant, // another tensor that existed before
    kResult,   // made by a node
  };

  Kind kind = Kind::kResult;
  std::vector<std::string> names; // of a state: several if modules share it
  std::int64_t bytes = 0;
  int memory = 0; // values of the same number share memory

  bool operator==(const Value&) const = default;
};

struct Node {
  std::string op;
  std::vector<int> uses;   // values, also those that it writes
  std::vector<int> makes;  // results that no value was before
  std::vector<int> writes; // values whose memory it changes
  bool is_random = false;
  double work = 0; // an estimate, in multiplications

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

// By value: whether it is the same in every run, whatever the inputs, the
// module's states and the random numbers are (a mask of what lies ahead, say).
std::vector<bool> fixed_values(const Graph& graph);

// By node: the states (values) that it works on, itself or through what was
// made of nothing else: weight.t(), a weight in another type.
std::vector<std::vector<int>> touched_states(const Graph& graph);

// By node: whether `value` depends on it. Nodes that only read are left out.
std::vector<bool> needed_nodes(const Graph& graph, int value);

// By value: the node that makes it; -1 for what is there at the beginning.
std::vector<int> makers(const Graph& graph);

// By value: the last node that uses or makes it; the number of nodes for
// outputs, and -1 for what nobody uses.
std::vector<int> last_uses(const Graph& graph);

} // namespace argosy::trace
