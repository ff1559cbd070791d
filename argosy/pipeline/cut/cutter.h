#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "argosy/pipeline/cut/cut.h"
#include "argosy/pipeline/index.h"

// Where a graph may be cut, and what its parts are then. Not installed.
namespace argosy::pipeline {

// The first use of a state that no node uses.
constexpr int kNoTouch = std::numeric_limits<int>::max();

// The range of positions for a cut: before any of the nodes first..last.
struct Window {
  int first = 0;
  int last = 0;
};

// Analyses of a graph that all decisions use.
class Cutter {
 public:
  explicit Cutter(const Graph& graph);

  const Graph& graph() const { return graph_; }
  int first_touch(int state) const { return first_touches_[at(state)]; }

  Window window(const std::string& layer, SplitPoint point) const;
  int place(const Window& window, bool prefer_last) const;
  Cuts parts(const std::vector<int>& places) const;
  std::vector<int> crossing(int place) const;
  // Returns the memory of which several views cross this position and which is
  // written after it; -1 if there is none.
  int torn_memory(int place) const;
  std::vector<std::int64_t> bytes() const;

 private:
  bool touches_others(int node, const std::set<int>& own) const;
  Window window_after(const std::set<int>& own) const;
  Window window_before(const std::set<int>& own) const;
  std::set<int> states_of(const std::string& layer) const;
  std::vector<std::string> layers() const;
  Part part(int begin, int end) const;
  std::vector<int> repeated(int begin, int end) const;
  std::vector<int> states(const std::vector<int>& nodes) const;
  void check_written_states(const Cuts& cuts) const;

  const Graph& graph_;
  const std::vector<bool> fixed_;
  const std::vector<int> makers_;
  const std::vector<int> last_uses_;
  const std::vector<std::vector<int>> touched_;
  std::vector<int> first_touches_; // by state: the first node that uses it
  std::map<int, int> last_writes_; // by memory: the last node that writes it
};

} // namespace argosy::pipeline
