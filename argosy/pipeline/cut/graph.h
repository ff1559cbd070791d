#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace argosy::pipeline {

// What a forward pass does, as data: a straight line of ops, the nodes, on
// numbered values. Torch-free, so that where to cut can be decided, looked at
// and tested without tensors.

struct Value {
  enum class Kind : std::uint8_t {
    kInput,
    kState,    // a parameter or buffer of the module
    kConstant, // a tensor that was there before, of nobody's
    kResult,
  };

  Kind kind = Kind::kResult;
  std::vector<std::string> names; // of a state: several if modules share it
  std::int64_t bytes = 0;
  int memory = 0; // the same number: views of the same memory

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

  const Value& value(int number) const {
    return values[static_cast<std::size_t>(number)];
  }
  const Node& node(int number) const {
    return nodes[static_cast<std::size_t>(number)];
  }
  int num_nodes() const { return static_cast<int>(nodes.size()); }

  bool operator==(const Graph&) const = default;
};

// By value: whether it is the same in every run, whatever the inputs, the
// module's states and the random numbers are (a mask of what lies ahead, say).
std::vector<bool> fixed_values(const Graph& graph);

// By node: the states (values) that it works on, itself or through what was
// made of nothing else: weight.t(), a weight in another type.
std::vector<std::vector<int>> touched_states(const Graph& graph);

// By value: the node that makes it; -1 for what is there at the beginning.
std::vector<int> makers(const Graph& graph);

// By value: the last node that uses or makes it; the number of nodes for
// outputs, and -1 for what nobody uses.
std::vector<int> last_uses(const Graph& graph);

} // namespace argosy::pipeline
