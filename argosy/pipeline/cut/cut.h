#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "argosy/pipeline/cut/split_point.h"
#include "argosy/trace/graph.h"

namespace argosy::pipeline {

using trace::Graph;
using trace::Node;
using trace::Value;

// A contiguous run of nodes, with what it receives from the previous part and
// sends to the next.
struct Part {
  int begin = 0;
  int end = 0;
  // Nodes of earlier parts whose results are the same in every run; this part
  // runs them again instead of receiving the results.
  std::vector<int> repeated;
  std::vector<int> receives; // values; of the first part: the module's inputs
  std::vector<int> sends;    // values; of the last part: the module's outputs
  std::vector<int> states;   // parameters and buffers that it uses, as values
  // All nodes that it runs, in order.
  std::vector<int> nodes() const;

  bool operator==(const Part&) const = default;
};

struct Cuts {
  std::vector<Part> parts;
  // States that several parts use: by first name, the parts.
  std::map<std::string, std::vector<int>> shared;

  bool operator==(const Cuts&) const = default;
};

// Cuts a graph at split points. A cut lies between the nodes that work on the
// states (parameters and buffers) of the named layer and those that work on the
// states of others, where the fewest bytes cross. Among equal positions, END
// takes the last (an activation stays with its layer) and BEGINNING the first.
// A state that is used again later (tied weights) counts where it is used
// first.
//
// Values that a later part uses are sent through all parts in between.
//
// Throws InvalidArgument for a layer that the graph does not use, for points
// out of graph order, for an empty part, and where a cut would change the
// result: a memory written after the cut of which several views cross it, or a
// written buffer that several parts use.
Cuts cut(const Graph& graph, const SplitSpec& points);

// Cuts into parts so that the largest weight of a part is within 5 % of the
// minimum, and within that, the fewest bytes cross. `weights` are per node.
Cuts cut_evenly(
    const Graph& graph, int parts, const std::vector<double>& weights);

// Cuts before these nodes, in ascending order.
Cuts cut_at(const Graph& graph, const std::vector<int>& places);

// Weights for cut_evenly(): the estimated work of each node, or the bytes of
// the states that it is the first to use.
std::vector<double> work_weights(const Graph& graph);
std::vector<double> state_weights(const Graph& graph);

// Cuts another graph of the same module (for other shapes, or for evaluation)
// so that each part uses the same states as in `cuts` of the graph `like`.
Cuts cut_alike(const Graph& graph, const Graph& like, const Cuts& cuts);

// Bytes that cross a cut before each node; a last entry has the outputs' bytes.
std::vector<std::int64_t> crossing_bytes(const Graph& graph);

} // namespace argosy::pipeline
