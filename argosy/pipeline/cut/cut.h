#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "argosy/pipeline/cut/graph.h"
#include "argosy/pipeline/cut/split_point.h"

namespace argosy::pipeline {

// A run of nodes, and what it needs from before and gives to the next part.
struct Part {
  int begin = 0;
  int end = 0;
  // Nodes of earlier parts that this one does again, as what they make is the
  // same in every run.
  std::vector<int> repeated;
  std::vector<int> receives; // values; of the first part: the inputs
  std::vector<int> sends;    // values; of the last part: the outputs
  std::vector<int> states;   // values of the states that it uses
  // All that it does, in order.
  std::vector<int> nodes() const;

  bool operator==(const Part&) const = default;
};

struct Cuts {
  std::vector<Part> parts;
  // States that several parts use, by their first name.
  std::map<std::string, std::vector<int>> shared;

  bool operator==(const Cuts&) const = default;
};

// Cuts where the points say: between what works on the parameters and buffers
// of the layer and what works on those of others, where the fewest bytes have
// to travel. Among equal places, END takes the last (an activation goes with
// its layer) and BEGINNING the first. A parameter that is used again later
// (tied weights) counts where it is used first.
//
// What a later part uses travels through all parts in between.
//
// Throws InvalidArgument for a layer that the graph does not work on, points
// that are not in the order of the graph, a part without nodes, and where a cut
// would change the result: a memory that is written after the cut and of which
// several views cross it, a buffer that is written and that several parts use.
Cuts cut(const Graph& graph, const SplitSpec& points);

// Cuts into parts whose heaviest is as light as it can be, up to 5 %; within
// this, where the fewest bytes travel. A weight for each node.
Cuts cut_evenly(
    const Graph& graph, int parts, const std::vector<double>& weights);

// Weights: the estimated work, or the bytes of the states that a node is the
// first to use.
std::vector<double> work_weights(const Graph& graph);
std::vector<double> state_weights(const Graph& graph);

// Cuts another graph of the same module (for other shapes, or not training) so
// that each part works on the states that it does in `cuts` of `like`.
Cuts cut_alike(const Graph& graph, const Graph& like, const Cuts& cuts);

// Bytes that cross a cut before each node; one more at the end for outputs.
std::vector<std::int64_t> crossing_bytes(const Graph& graph);

} // namespace argosy::pipeline
